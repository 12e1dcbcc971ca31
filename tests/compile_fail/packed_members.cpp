// expect: stave: members of classes are packed
#pragma pack(push, 1)
#include <stave/core/tensor/shape.h>

int main() { return 0; }
