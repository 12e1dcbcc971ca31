// The list of all work types of the linear algebra kernels (linalg.cuh, linalg_solve.cuh,
// linalg_large.cuh, expm.cuh), grouped by the .cu file that compiles them. Each type is compiled
// for float and double.
#pragma once

// clang-format off
#define STAVE_SMALL_WORKS(X) \
  X(CholeskyWork) X(LuWork) X(QrWork) X(EighWork) X(SvdWork) X(SubstituteWork)
#define STAVE_OTHER_WORKS(X) \
  X(DiagonalWork) X(PermuteWork) X(ScaleRowsWork) X(CombineWork) X(DeterminantWork) X(ExpmWork) X(TakeSquaresWork)
#define STAVE_LARGE_WORKS(X) \
  X(PrepareWork) X(FinishWork) X(FinishCholeskyWork) X(FinishLuWork) X(TakeTriangleWork) X(HalveWork)
// clang-format on

#define STAVE_LAUNCH_TEAMS(Work)                                              \
  template void launch_teams(const Launch&, const Work<float>&, const char*); \
  template void launch_teams(const Launch&, const Work<double>&, const char*);
#define STAVE_LAUNCH_BLOCKS(Work)                                              \
  template void launch_blocks(const Launch&, const Work<float>&, const char*); \
  template void launch_blocks(const Launch&, const Work<double>&, const char*);
