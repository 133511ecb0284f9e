// The NCCL C ABI as declared by this project: types, the function table that
// dlsym fills. Enum values and layouts are those of NCCL 2.x; nothing here is a
// vendor header.
#ifndef CX_NCCL_ABI_H
#define CX_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

// A unique id is passed by value, so its type has to have its true size.
typedef struct { char bytes[128]; } cx_nccl_id;

// ncclConfig_t as of 2.30, 96 bytes. A library reads only the fields that it knows.
typedef struct {
	size_t size;
	uint32_t magic;
	uint32_t version;
	int32_t blocking;
	int32_t cgaClusterSize;
	int32_t minCTAs;
	int32_t maxCTAs;
	const char *netName;
	int32_t splitShare;
	int32_t trafficClass;
	const char *commName;
	int32_t collnetEnable;
	int32_t CTAPolicy;
	int32_t shrinkShare;
	int32_t nvlsCTAs;
	int32_t nChannelsPerNetPeer;
	int32_t nvlinkCentricSched;
	int32_t graphUsageMode;
	int32_t numRmaCtx;
	int32_t maxP2pPeers;
	int32_t graphStreamOrdering;
} cx_nccl_config;

// ncclCollConfig_t as of 2.31, 64 bytes: how one call is performed.
typedef struct {
	size_t size;
	uint32_t magic;
	uint32_t version;
	void *ext;
	int32_t minCTAs;
	int32_t maxCTAs;
	int32_t nvlsCTAs;
	int32_t cgaClusterSize;
	const char *algSelection;
	int32_t forceAlgSelection;
	int32_t CTAPolicy;
	uint64_t userProfilerTag;
} cx_nccl_call_config;

typedef void *cx_comm;   // ncclComm_t
typedef void *cx_stream; // cudaStream_t, hipStream_t
typedef void *cx_window; // ncclWindow_t

// ncclTeam_t: ranks of a communicator.
typedef struct {
	int nRanks, rank, stride;
} cx_team;

// ncclCommProperties_t since 2.29.7, 56 bytes.
typedef struct {
	size_t size;
	uint32_t magic, version;
	int32_t rank, nRanks, cudaDev, nvmlDev;
	uint8_t deviceApiSupport, multimemSupport;
	int32_t ginType, nLsaTeams;
	uint8_t hostRmaSupport;
	int32_t railedGinType;
} cx_nccl_properties;

// name, return type, parameters. The symbol is the name with "nccl" before it.
#define CX_NCCL_FUNCTIONS(X) \
	X(GetVersion, int, (int *)) \
	X(GetErrorString, const char *, (int)) \
	X(GetLastError, const char *, (cx_comm)) \
	X(GetUniqueId, int, (cx_nccl_id *)) \
	X(CommInitRank, int, (cx_comm *, int, cx_nccl_id, int)) \
	X(CommInitRankConfig, int, (cx_comm *, int, cx_nccl_id, int, cx_nccl_config *)) \
	X(CommInitRankScalable, int, (cx_comm *, int, int, int, cx_nccl_id *, cx_nccl_config *)) \
	X(CommFinalize, int, (cx_comm)) \
	X(CommDestroy, int, (cx_comm)) \
	X(CommAbort, int, (cx_comm)) \
	X(CommGetAsyncError, int, (cx_comm, int *)) \
	X(CommSplit, int, (cx_comm, int, int, cx_comm *, cx_nccl_config *)) \
	X(CommShrink, int, (cx_comm, int *, int, cx_comm *, cx_nccl_config *, int)) \
	X(CommCount, int, (cx_comm, int *)) \
	X(CommUserRank, int, (cx_comm, int *)) \
	X(MemAlloc, int, (void **, size_t)) \
	X(MemFree, int, (void *)) \
	X(CommRegister, int, (cx_comm, void *, size_t, void **)) \
	X(CommDeregister, int, (cx_comm, void *)) \
	X(CommWindowRegister, int, (cx_comm, void *, size_t, cx_window *, int)) \
	X(CommWindowDeregister, int, (cx_comm, cx_window)) \
	X(TeamLsa, cx_team, (cx_comm)) \
	X(CommQueryProperties, int, (cx_comm, cx_nccl_properties *)) \
	X(AllReduce, int, (const void *, void *, size_t, int, int, cx_comm, cx_stream)) \
	X(ReduceScatter, int, (const void *, void *, size_t, int, int, cx_comm, cx_stream)) \
	X(AllGather, int, (const void *, void *, size_t, int, cx_comm, cx_stream)) \
	X(Broadcast, int, (const void *, void *, size_t, int, int, cx_comm, cx_stream)) \
	X(Reduce, int, (const void *, void *, size_t, int, int, int, cx_comm, cx_stream)) \
	X(AlltoAll, int, (const void *, void *, size_t, int, cx_comm, cx_stream)) \
	X(AllToAll, int, (const void *, void *, size_t, int, cx_comm, cx_stream)) \
	X(AlltoAllv, int, (const void *, const size_t *, const size_t *, void *, const size_t *, const size_t *, int, cx_comm, cx_stream)) \
	X(AllToAllv, int, (const void *, const size_t *, const size_t *, void *, const size_t *, const size_t *, int, cx_comm, cx_stream)) \
	X(Gather, int, (const void *, void *, size_t, int, int, cx_comm, cx_stream)) \
	X(Scatter, int, (const void *, void *, size_t, int, int, cx_comm, cx_stream)) \
	X(Send, int, (const void *, size_t, int, int, cx_comm, cx_stream)) \
	X(Recv, int, (void *, size_t, int, int, cx_comm, cx_stream)) \
	X(GroupStart, int, (void)) \
	X(GroupEnd, int, (void)) \
	X(RedOpCreatePreMulSum, int, (int *, void *, int, int, cx_comm)) \
	X(RedOpDestroy, int, (int, cx_comm)) \
	X(ResetDebugInit, void, (void)) \
	X(AllReduceConfig, int, (const void *, void *, size_t, int, int, cx_comm, cx_stream, const cx_nccl_call_config *)) \
	X(ReduceScatterConfig, int, (const void *, void *, size_t, int, int, cx_comm, cx_stream, const cx_nccl_call_config *)) \
	X(AllGatherConfig, int, (const void *, void *, size_t, int, cx_comm, cx_stream, const cx_nccl_call_config *)) \
	X(BroadcastConfig, int, (const void *, void *, size_t, int, int, cx_comm, cx_stream, const cx_nccl_call_config *)) \
	X(ReduceConfig, int, (const void *, void *, size_t, int, int, int, cx_comm, cx_stream, const cx_nccl_call_config *))

// The table: a NULL entry is a symbol that the library lacks.
typedef struct {
#define CX_FIELD(name, ret, params) ret (*name) params;
	CX_NCCL_FUNCTIONS(CX_FIELD)
#undef CX_FIELD
} cx_nccl;

// How many entries the table has, and the symbol of entry i.
int cx_nccl_count(void);
const char *cx_nccl_symbol(int i);
// cx_nccl_set fills entry i.
void cx_nccl_set(cx_nccl *f, int i, void *address);

#endif
