// x.at(index...): against NumPy on random indices (data/at_numpy.py), and the updates that NumPy
// does not have.

#include <cmath>
#include <fstream>
#include <sstream>

#include <stave/core/ops/at.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/ops/layout.h>
#include <stave/core/ops/reduce.h>
#include <stave/handlers/transforms/check_grads.h>
#include <stave/handlers/transforms/grad.h>
#include <stave/handlers/transforms/vmap.h>

#include "matchers.h"

using namespace stave;
using namespace stave_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

namespace {

Tensor counting(const Shape& shape) { return reshape(arange(0, shape.elements(), 1, int64), shape); }

// ---- NumPy --------------------------------------------------------------------------------------

std::vector<Index> numbers_in(const std::string& text) {
  std::vector<Index> numbers;
  std::stringstream in(text);
  for (std::string number; std::getline(in, number, ',');)
    if (number != "-" && number != " -") numbers.push_back(std::stoll(number));
  return numbers;
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t to; (to = text.find(separator, from)) != std::string::npos; from = to + separator.size())
    parts.push_back(text.substr(from, to - from));
  parts.push_back(text.substr(from));
  return parts;
}

AnyIndex part_of(const std::string& text) {
  const std::vector<std::string> words = split(text, " ");
  const auto bound = [&](std::size_t i) {
    return words[i] == "None" ? SliceBound(none) : SliceBound(std::stoll(words[i]));
  };
  const auto integers = [&] { return from(numbers_in(words[2]), Shape(numbers_in(words[1]))); };
  switch (words[0][0]) {
    case 'i': return std::stoll(words[1]);
    case 's': return slice(bound(1), bound(2), bound(3));
    case 'e': return ellipsis;
    case 'n': return newaxis;
    case 't': return integers();
    default: return astype(integers(), bool_);
  }
}

Tensor performed(const At& at, const std::string& operation, const Tensor& values) {
  if (operation == "set") return at.set(values);
  if (operation == "add") return at.add(values);
  if (operation == "multiply") return at.multiply(values);
  if (operation == "min") return at.min(values);
  return operation == "max" ? at.max(values) : at.get();
}

TEST(At, EqualsNumPyOnRandomIndices) {
  std::ifstream file(STAVE_SOURCE_DIR "/tests/data/at_numpy.txt");
  int cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const std::vector<std::string> fields = split(line, " | ");
    ASSERT_EQ(fields.size(), 7u) << line;
    std::vector<AnyIndex> index;
    for (const std::string& part : split(fields[1], "; ")) index.push_back(part_of(part));
    const Tensor x = counting(Shape(numbers_in(fields[0])));
    const Tensor values_given = from(numbers_in(fields[4]), Shape(numbers_in(fields[3])));
    const Tensor result = performed(x.at(index), fields[2], values_given);
    EXPECT_EQ(result.shape(), Shape(numbers_in(fields[5]))) << line;
    EXPECT_EQ(result.to_vector<Index>(), numbers_in(fields[6])) << line;
    EXPECT_EQ(x.to_vector<Index>(), counting(x.shape()).to_vector<Index>());
  }
  EXPECT_EQ(cases, 600);
}

// ---- reads and updates --------------------------------------------------------------------------

TEST(At, ReadsLikeIndexingByTensors) {
  const Tensor x = counting({3, 4});
  EXPECT_THAT(values(x(tensor({2, 0}), 1)), ElementsAre(9, 1));
  EXPECT_THAT(values(x[tensor({2, -3})]), ElementsAre(8, 9, 10, 11, 0, 1, 2, 3));
  EXPECT_THAT(values(x(x > 8)), ElementsAre(9, 10, 11));
  EXPECT_THAT(values(x.at(1, slice(2)).get()), ElementsAre(4, 5));
}

TEST(At, UpdatesACopy) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(values(x.at(0, slice(2)).set(7)), ElementsAre(7, 7, 2, 3, 4, 5));
  EXPECT_THAT(values(x.at(ellipsis, slice(none, none, -2)).set(tensor({7, 8}))), ElementsAre(8, 1, 7, 8, 4, 7));
  EXPECT_THAT(values(x.at(x > 2).set(0)), ElementsAre(0, 1, 2, 0, 0, 0));
  EXPECT_THAT(values(x.at(tensor({0, 0}), 1).add(10)), ElementsAre(0, 21, 2, 3, 4, 5));
  EXPECT_THAT(values(x.at(tensor({0, 0})).set(tensor({{1}, {2}}))), ElementsAre(2, 2, 2, 3, 4, 5)) << "the last one";
  EXPECT_THAT(values(x.at(slice(0, 0)).set(1)), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(values(x), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(At, DtypesArePromotedAndNumbersAreWeak) {
  const Tensor x = counting({3});
  EXPECT_EQ(x.at(0).set(1).dtype(), int64);
  EXPECT_EQ(x.at(0).set(0.5).dtype(), float32);
  EXPECT_EQ(x.at(tensor({1})).add(ones({}, float64)).dtype(), float64);
  EXPECT_EQ(ones({2}, float16).at(0).multiply(2.5).dtype(), float16);
  const Tensor mask = ones({3}, bool_);
  EXPECT_EQ(mask.at(1).set(false).dtype(), bool_);
  EXPECT_EQ(mask.at(tensor({1, 1})).set(tensor({true, false})).dtype(), bool_);
  EXPECT_THAT(values(mask.at(tensor({1, 1})).add(true)), ElementsAre(1, 3, 1)) << "as true + true is 2";
}

TEST(At, GetFillsWhereIndicesAreOutOfRange) {
  const Tensor x = astype(counting({3}), float32);
  EXPECT_THAT(values(x.at(tensor({1, 3, -3, -4})).get(-1)), ElementsAre(1, -1, 0, -1));
  EXPECT_THAT(values(counting({2, 3}).at(tensor({0, 2}), slice(1, none)).get(9)), ElementsAre(1, 2, 9, 9));
  EXPECT_THAT(values(counting({3, 2, 2}).at(tensor({0, 3}), slice(), tensor({1, 0})).get(9)), ElementsAre(1, 3, 9, 9));
  EXPECT_THAT(values(zeros({0, 2}).at(tensor({0})).get(5)), ElementsAre(5, 5));
  EXPECT_THAT(values(x.at(tensor({{3}}), newaxis).get(2)), ElementsAre(2));
  EXPECT_THAT(values(grad([](const Tensor& v) {
                return sum(square(v.at(tensor({1, 7})).get(3)));
              })(x)),
              ElementsAre(0, 2, 0));
}

TEST(At, MasksMayDifferBetweenLanesForASingleValue) {
  const Tensor x = reshape(astype(counting({6}), float32), {2, 3});
  const auto no_negatives = [](const Tensor& v) { return (v - 2).at(v < 2).set(0).at(v > 3).multiply(10); };
  EXPECT_THAT(values(vmap(no_negatives)(x)), ElementsAre(0, 0, 0, 1, 20, 30));
  EXPECT_THAT(values(vmap([](const Tensor& v, const Tensor& i) { return v.at(i).set(-1); })(x, tensor({2, 0}))),
              ElementsAre(0, 1, -1, -1, 4, 5));
}

TEST(At, DerivativesOfUpdates) {
  const Tensor ids = tensor({3, 0, 3}), v = tensor({0.5, -2., 3.}, float64), x = tensor({1., 2., 4., -5.}, float64);
  const auto weights = tensor({1., -2., 3., 0.7}, float64);
  const auto all = [&](const Tensor& a, const Tensor& b) {
    const Tensor y = a.at(ids).set(b) + square(a.at(ids).add(b)) + a.at(ids).multiply(b) + a.at(ids).min(b) +
                     a.at(ids).max(b) + a.at(slice(3)).set(b * b) + a.at(slice(none, none, 2)).multiply(b(slice(2)));
    return sum(y * weights + exp(a(ids)(0) * b(1)));
  };
  check_grads(all, std::tuple(x, v), {.order = 3});
  // Only the last update of an element has a derivative.
  EXPECT_THAT(values(grad([&](const Tensor& b) { return sum(x.at(ids).set(b)); })(v)), ElementsAre(0, 1, 1));
  // Factors of 0, one of them at an element that is updated twice: d/db0 = x3 b2, d/db2 = x3 b0.
  const Tensor factors = tensor({0., 4., 0.}, float64);
  const auto product = [&](const Tensor& b) { return sum(x.at(ids).multiply(b)); };
  EXPECT_THAT(values(grad(product)(factors)), ElementsAre(0, 1, 0));
  EXPECT_THAT(values(grad([&](const Tensor& b) { return grad(product)(b)(0); })(factors)), ElementsAre(0, 0, -5));
}

TEST(At, EqualElementsShareTheDerivative) {
  const Tensor x = tensor({2., 5.}), ids = tensor({0, 0, 1}), v = tensor({2., 2., 7.});
  const auto f = [&](const Tensor& a, const Tensor& b) { return sum(a.at(ids).max(b)); };
  EXPECT_THAT(values(grad(f)(x, v)), testing::Pointwise(testing::FloatEq(), {1.f / 3, 0.f}));
  EXPECT_THAT(values(grad([&](const Tensor& b) { return f(x, b); })(v)),
              testing::Pointwise(testing::FloatEq(), {1.f / 3, 1.f / 3, 1.f}));
}

TEST(At, MinAndMaxPropagateNan) {
  const Tensor x = tensor({1., NAN, 3.}), v = tensor({NAN, 0., 5.}), ids = tensor({0, 1, 2});
  EXPECT_THAT(values(x.at(ids).max(v)), ElementsAre(testing::IsNan(), testing::IsNan(), 5));
  EXPECT_THAT(values(x.at(ids).min(v)), ElementsAre(testing::IsNan(), testing::IsNan(), 3));
}

TEST(At, Errors) {
  const Tensor x = counting({2, 3});
  const auto message = [](const auto& f) {
    try {
      f();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(message([&] { x.at(tensor({0}), 0, 0).get(); }), "at: 3 indices are too many for shape [2,3]");
  EXPECT_EQ(message([&] { x(ellipsis, ellipsis, tensor({0})); }), "at: an index has more than one ellipsis");
  EXPECT_EQ(message([&] { x(tensor({2})); }), "at: index 2 is out of range for axis 0 with size 2");
  EXPECT_EQ(message([&] { x(slice(), tensor({1, -4})); }), "at: index -4 is out of range for axis 1 with size 3");
  EXPECT_EQ(message([&] { x.at(5, tensor({0})).set(1); }),
            "at: index 5 is out of range for axis 0 of length 2 (shape [2,3])");
  EXPECT_EQ(message([&] { x(ones({3}, bool_)); }),
            "at: a mask of shape [3] cannot index axes of lengths [2] (of shape [2,3]): they must be equal");
  EXPECT_EQ(message([&] { x(tensor({0.5})); }), "at: indices are float32: convert them to int32 or int64 with astype");
  EXPECT_THAT(message([&] { x.at(tensor({0, 1})).set(zeros({4})); }), HasSubstr("at: "));
  EXPECT_THAT(message([&] { x(tensor({0, 1}), tensor({0, 1, 2})); }), HasSubstr("at: "));
  EXPECT_EQ(message([&] { x.at(0).set(Tensor()); }),
            "at: operand 1 is an empty Tensor (default-constructed or moved from)");
  EXPECT_THAT(message([&] { vmap([](const Tensor& v) { return v(v > 1); })(x); }),
              HasSubstr("vmap: result 0 is int64 [1] in lane 0, and int64 [3] in lane 1"));
}

}  // namespace
