// Tests that run with the kernels of each instruction set of this machine.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include <stave/backends/cpu/dispatch.h>

namespace stave_test {

/// A fixture whose parameter is the name of an instruction set.
class OnEachIsa : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const stave_cpu::Kernels* const table = stave_cpu::kernels_for(GetParam());
    if (!table) GTEST_SKIP() << "this machine or build has no " << GetParam();
    stave_cpu::use_kernels(table);
  }
  void TearDown() override { stave_cpu::use_kernels(nullptr); }
};

}  // namespace stave_test

/// Runs the tests of a class derived from OnEachIsa.
#define STAVE_ON_EACH_ISA(name)                                                   \
  INSTANTIATE_TEST_SUITE_P(Isa, name, testing::ValuesIn(stave_cpu::built_isas()), \
                           [](const auto& isa) { return isa.param; })
