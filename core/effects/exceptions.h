// Included before all else: a compiler without exceptions says that, once, in place of complaining of each `throw`.
#pragma once

#ifndef __cpp_exceptions
#error "stave: errors are exceptions, and so is what ends a program early: compile without -fno-exceptions"
#include <stave/without_exceptions>  // ends the compilation
#endif
