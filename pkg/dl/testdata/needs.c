/* A library that needs a symbol nobody has. */
int cx_test_nobody_has_this(void);
int cx_test_needs(void) { return cx_test_nobody_has_this(); }
