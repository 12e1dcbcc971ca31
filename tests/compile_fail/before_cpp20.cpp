// expect: stave: the headers are C[+][+]20: compile with -std=c[+][+]20 or later.*older_than_cpp20.*(terminated|file not found)
// with: -std=c++17
#include <stave/stave.h>

int main() { return 0; }
