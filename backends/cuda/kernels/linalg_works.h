// The list of all work types of the linear algebra kernels (linalg.cuh, linalg_solve.cuh,
// linalg_large.cuh, expm.cuh), grouped by the .cu file that compiles them. Each type is compiled
// for float and double, and for complex numbers of these. FinishWork needs no complex numbers.
#pragma once

#include <stave/core/tensor/complex.h>

// clang-format off
#define STAVE_SMALL_WORKS(X) \
  X(CholeskyWork) X(LuWork) X(QrWork) X(EighWork) X(SvdWork) X(SubstituteWork)
#define STAVE_OTHER_WORKS(X) \
  X(DiagonalWork) X(PermuteWork) X(ScaleRowsWork) X(CombineWork) X(DeterminantWork) X(ExpmWork) X(TakeSquaresWork)
#define STAVE_LARGE_WORKS(X) \
  X(PrepareWork) X(FinishCholeskyWork) X(FinishLuWork) X(TakeTriangleWork) X(HalveWork)
// clang-format on

#define STAVE_LAUNCH(launch, Work, T) template void launch(const Launch&, const Work<T>&, const char*);
#define STAVE_LAUNCH_TEAMS(Work) STAVE_LAUNCH(launch_teams, Work, float) STAVE_LAUNCH(launch_teams, Work, double)
#define STAVE_LAUNCH_BLOCKS(Work) STAVE_LAUNCH(launch_blocks, Work, float) STAVE_LAUNCH(launch_blocks, Work, double)
#define STAVE_LAUNCH_COMPLEX_TEAMS(Work)                         \
  STAVE_LAUNCH(launch_teams, Work, stave::ComplexElement<float>) \
  STAVE_LAUNCH(launch_teams, Work, stave::ComplexElement<double>)
#define STAVE_LAUNCH_COMPLEX_BLOCKS(Work)                         \
  STAVE_LAUNCH(launch_blocks, Work, stave::ComplexElement<float>) \
  STAVE_LAUNCH(launch_blocks, Work, stave::ComplexElement<double>)
