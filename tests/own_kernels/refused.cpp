// What a file of operations may not define: compiled for an instruction set, it would be so for the whole program.
volatile int cell = 1;
static const int done_at_start = cell;
__attribute__((noinline)) inline int defined_anywhere(int x) { return x + cell; }
int defined_once() { return defined_anywhere(done_at_start); }
