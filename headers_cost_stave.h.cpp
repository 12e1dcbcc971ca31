#include <stave/stave.h>
