/* A library that answers, twice over with different answers, to show which
 * copy a symbol came from. */
int cx_test_answer(void) { return ANSWER; }

/* What the library's own call, made through the symbol table while it is
 * loaded, was answered. */
int cx_test_heard;
__attribute__((constructor)) static void listen(void) { cx_test_heard = cx_test_answer(); }
