// The library beside libmscclpp_nccl that it needs: MSCCL++'s own, of which
// nothing is used but what tells it apart, the name of mscclpp::version().

__attribute__((visibility("default"))) void _ZN7mscclpp7versionB5cxx11Ev(void) {}
