// expect: stave: -fpack-struct, or a #pragma pack that was not ended, packs the members of classes
#pragma pack(push, 1)
#include <stave/core/tensor/shape.h>

int main() { return 0; }
