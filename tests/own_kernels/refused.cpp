// A definition that files of operations must not contain. The file is compiled for one instruction
// set, but the definition would be used by the whole program.
volatile int cell = 1;
static const int done_at_start = cell;
__attribute__((noinline)) inline int defined_anywhere(int x) { return x + cell; }
int defined_once() { return defined_anywhere(done_at_start); }
