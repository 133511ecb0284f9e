// Holds the stream that it runs on until the host writes to *open, which is page-locked.
extern "C" __global__ void cx_gate(const volatile cx_u32 *open)
{
	while (*open == 0)
		;
}
