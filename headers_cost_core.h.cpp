#include <stave/core.h>
