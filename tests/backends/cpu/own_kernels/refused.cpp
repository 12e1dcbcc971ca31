// A global with a dynamic initializer, which files of operations must not contain: the initializer
// is compiled for one instruction set, but runs when any program that links the file starts.
volatile int cell = 1;
static const int done_at_start = cell;
__attribute__((noinline)) inline int defined_anywhere(int x) { return x + cell; }
int defined_once() { return defined_anywhere(done_at_start); }
