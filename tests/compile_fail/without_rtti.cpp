// expect: stave: the library identifies effects and handlers by their types at run time: compile without -fno-rtti.*without_rtti.*(terminated|file not found)
// with: -fno-rtti
#include <stave/stave.h>

int main() { return 0; }
