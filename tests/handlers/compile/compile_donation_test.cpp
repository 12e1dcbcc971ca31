// Donated arguments of compiled functions: an argument that is moved in, and that nobody else has,
// lends its memory to the results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stave/core/tensor/storage_watcher.h>
#include <stave/stave.h>

#include "machine_code.h"

using namespace stave;

namespace {

// Counts storages that are made while it lives.
struct CountStorages final : stave_detail::StorageWatcher {
  int made_storages = 0;
  void made(const Storage&, Device) override { ++made_storages; }
  void freed(const Storage&) noexcept override {}
  stave_detail::WatchingStorage watching{*this};
};

const float* address(const Tensor& x) { return x.data<float>().data(); }

// Writes `value` at `position` of a row.
Tensor written(const Tensor& row, const Tensor& value, const Tensor& position) {
  return dynamic_update_slice(row, reshape(value, {1}), {position});
}
Tensor at_position(Index i) { return tensor(i, int64); }

constexpr Index length = 4096;  // too many elements for machine code

TEST(CompileDonation, ReplacesAPartInPlace) {
  const auto step = compile(written);
  Tensor row = zeros({length});
  for (Index i = 0; i < 3; ++i) row = step(std::move(row), tensor(1.f), at_position(i));
  const float* const before = address(row);
  const Tensor value = tensor(2.f), position = at_position(7);
  {
    CountStorages count;
    row = step(std::move(row), value, position);
    EXPECT_EQ(count.made_storages, 0);
  }
  EXPECT_EQ(address(row), before);
  EXPECT_TRUE(array_equal(row(slice(9)), tensor({1.f, 1.f, 1.f, 0.f, 0.f, 0.f, 0.f, 2.f, 0.f})));
  EXPECT_EQ(step.recordings(), 1u);
}

TEST(CompileDonation, OneRecordingServesAllPositions) {
  const auto step = compile(written);
  Tensor row = zeros({length});
  for (Index i = 0; i < 40; ++i) row = step(std::move(row), tensor(static_cast<float>(i)), at_position(i));
  EXPECT_TRUE(array_equal(row(slice(40)), astype(arange(40), float32)));
  EXPECT_EQ(step.recordings(), 1u);
}

TEST(CompileDonation, ValuesThatSomebodyElseHoldsDoNotChange) {
  const auto step = compile(written);
  Tensor row = zeros({length});
  for (Index i = 0; i < 3; ++i) row = step(std::move(row), tensor(1.f), at_position(i));
  const Tensor same = row;  // a second handle
  Tensor next = step(std::move(row), tensor(5.f), at_position(3));
  EXPECT_EQ(same(3).item<float>(), 0);
  EXPECT_EQ(next(3).item<float>(), 5);

  const Tensor view = next(slice(2, 6));  // a view of the same memory
  next = step(std::move(next), tensor(6.f), at_position(4));
  EXPECT_TRUE(array_equal(view, tensor({1.f, 5.f, 0.f, 0.f})));
  EXPECT_EQ(next(4).item<float>(), 6);

  const Tensor given = next;  // an argument that is not moved in
  const Tensor other = step(next, tensor(7.f), at_position(5));
  EXPECT_EQ(next(5).item<float>(), 0);
  EXPECT_EQ(other(5).item<float>(), 7);

  // The same tensor twice, once moved in.
  const auto both = compile([](const Tensor& a, const Tensor& b, const Tensor& position) {
    return std::pair(written(a, tensor(1.f), position), sum(b));
  });
  for (int i = 0; i < 4; ++i) {
    Tensor a = zeros({length});
    const Tensor b = a;
    const auto [updated, total] = both(std::move(a), b, at_position(2));
    EXPECT_EQ(total.item<float>(), 0);
    EXPECT_EQ(sum(updated).item<float>(), 1);
    EXPECT_EQ(sum(b).item<float>(), 0);
  }
}

TEST(CompileDonation, ReadsOfTheOldValueComeFirst) {
  const auto step = compile([](const Tensor& row, const Tensor& position) {
    const Tensor old = sum(row);
    const Tensor next = written(row, tensor(1.f), position);
    return std::tuple(next, old, sum(next), sum(row * row));
  });
  Tensor row = zeros({length});
  for (Index i = 0; i < 6; ++i) {
    Tensor old, now, squares;
    std::tie(row, old, now, squares) = step(std::move(row), at_position(i));
    EXPECT_EQ(old.item<float>(), static_cast<float>(i));
    EXPECT_EQ(squares.item<float>(), static_cast<float>(i));
    EXPECT_EQ(now.item<float>(), static_cast<float>(i + 1));
  }
}

TEST(CompileDonation, ResultsThatAreTheArgumentOrAnEarlierUpdate) {
  const auto step = compile([](const Tensor& row, const Tensor& position) {
    const Tensor once = written(row, tensor(1.f), position), twice = written(once, tensor(2.f), position + 1);
    return std::tuple(row, once, twice, reshape(row, {2, length / 2}));
  });
  for (int i = 0; i < 5; ++i) {
    const auto [row, once, twice, view] = step(zeros({length}), at_position(3));
    EXPECT_EQ(sum(row).item<float>(), 0);
    EXPECT_EQ(sum(once).item<float>(), 1);
    EXPECT_EQ(sum(twice).item<float>(), 3);
    EXPECT_EQ(sum(view).item<float>(), 0);
  }
  const auto two = compile([](const Tensor& row, const Tensor& position) {
    const Tensor once = written(row, tensor(1.f), position);
    return std::pair(once, written(once, tensor(2.f), position + 1));
  });
  for (int i = 0; i < 5; ++i) {
    const auto [once, twice] = two(zeros({length}), at_position(3));
    EXPECT_EQ(sum(once).item<float>(), 1);
    EXPECT_EQ(sum(twice).item<float>(), 3);
  }
}

TEST(CompileDonation, ASequenceOfUpdatesIsInPlace) {
  const auto step = compile([](const Tensor& row, const Tensor& position) {
    const Tensor next = written(row, tensor(1.f), position);
    return written(next, 2 * max(next), position);
  });
  Tensor row = zeros({length});
  for (Index i = 0; i < 3; ++i) row = step(std::move(row), at_position(2 * i));
  const float* const before = address(row);
  row = step(std::move(row), at_position(6));
  EXPECT_EQ(address(row), before);
  EXPECT_TRUE(array_equal(row(slice(8)), tensor({2.f, 0.f, 4.f, 0.f, 8.f, 0.f, 16.f, 0.f})));
}

// A result that replaces the whole of a donated argument takes its memory.
TEST(CompileDonation, ResultsTakeTheMemoryOfArgumentsThatAreNotNeededAnyMore) {
  const auto step = compile([](const Tensor& w, const Tensor& x) { return matmul(x, matmul(x, w)); });
  Tensor w = ones({64, 64});
  const Tensor x = eye(64);
  for (int i = 0; i < 3; ++i) w = step(ones({64, 64}), x);
  Tensor other = ones({64, 64});
  const float* const before = address(other);
  {
    CountStorages count;
    other = step(std::move(other), x);
    EXPECT_EQ(count.made_storages, 0);
  }
  EXPECT_EQ(address(other), before);
  EXPECT_TRUE(array_equal(other, w));
}

// An update of weights, which reads the old weights where it writes the new ones.
TEST(CompileDonation, ElementwiseUpdates) {
  const auto step = compile([](const Tensor& w, const Tensor& x) {
    return w - 0.5 * grad([&](const Tensor& v) { return sum(square(v * x)); })(w);
  });
  Tensor w = ones({length});
  const Tensor x = full({length}, 0.5f);
  for (int i = 0; i < 3; ++i) w = step(std::move(w), x);
  const float* const before = address(w);
  const Tensor other = step(w, x);
  EXPECT_NE(address(other), before);
  {
    CountStorages count;
    w = step(std::move(w), x);
    EXPECT_EQ(count.made_storages, 0);
  }
  EXPECT_EQ(address(w), before);
  EXPECT_TRUE(array_equal(w, full({length}, 0.31640625f)));  // 0.75^4
  EXPECT_TRUE(array_equal(w, other));

  // Each element of the result reads another one of the argument.
  const auto turned = compile([](const Tensor& v) { return v + flip(v); });
  for (int i = 0; i < 4; ++i) {
    const Tensor y = turned(astype(arange(length), float32));
    EXPECT_TRUE(array_equal(y, full({length}, static_cast<float>(length - 1))));
  }
}

// A step of decoding: the next token takes the memory of the last one, and keys and values are
// written into the cache. This holds for kernels, and for the machine code that later calls use.
TEST(CompileDonation, ADecodingStepAllocatesNothing) {
  constexpr Index context = 4096, width = 8;
  const Tensor table = cos(astype(reshape(arange(16 * width), {16, width}), float32));
  const auto f = [&](const Tensor& token, const Tensor& position, const Tensor& keys, const Tensor& values) {
    const Tensor x = embedding(table, token);  // [1, width]
    const Tensor all_keys = dynamic_update_slice(keys, sin(x), {position, 0});
    const Tensor all_values = dynamic_update_slice(values, x + cos(astype(position, float32)), {position, 0});
    const Tensor mask = expand_dims(arange(context) <= position, 0);
    const Tensor y = scaled_dot_product_attention(x, all_keys, all_values, {.mask = mask});
    return std::tuple(argmax(matmul(y, transpose(table)), -1), all_keys, all_values);
  };
  const auto step = compile(f);
  const auto start = [] { return std::tuple(tensor({3}), zeros({context, width}), zeros({context, width})); };
  auto [token, keys, values] = start();
  const Tensor kept = keys;
  std::vector<int> allocating;  // the steps that make storages
  for (int i = 0; i < context; ++i) {
    const Tensor position = tensor(i);
    CountStorages count;
    std::tie(token, keys, values) = step(std::move(token), position, std::move(keys), std::move(values));
    if (i >= 3 && count.made_storages > 0) allocating.push_back(i);
  }
  // In one step machine code is made, and in the next one it runs with an arena of its own. With
  // STAVE_NATIVE=check, kernels run beside it.
  if (stave_test::native_setting() != "check") {
    EXPECT_THAT(allocating, ::testing::SizeIs(::testing::Le(2u)));
    EXPECT_THAT(allocating, ::testing::Each(::testing::Lt(context - 100)));
  }
  EXPECT_EQ(step.recordings(), 1u);
  EXPECT_EQ(sum(abs(kept)).item<float>(), 0);

  auto [plain_token, plain_keys, plain_values] = start();
  for (int i = 0; i < 40; ++i)
    std::tie(plain_token, plain_keys, plain_values) = f(plain_token, tensor(i), plain_keys, plain_values);
  EXPECT_TRUE(array_equal(keys(slice(40)), plain_keys(slice(40))));
  EXPECT_TRUE(array_equal(values(slice(40)), plain_values(slice(40))));
  EXPECT_GT(sum(abs(diff(keys(slice(40)), 1, 0))).item<float>(), 0);  // not the same token forever
}

TEST(CompileDonation, TreesAreDonatedAsTheyAreMovedIn) {
  struct State {
    std::vector<Tensor> rows;
    Tensor position;
  };
  const auto step = compile([](const State& state, const Tensor& value) {
    State next{{}, state.position + 1};
    for (const Tensor& row : state.rows) next.rows.push_back(written(row, value, state.position));
    return next;
  });
  State state{{zeros({length}), zeros({length})}, at_position(0)};
  for (Index i = 0; i < 3; ++i) state = step(std::move(state), tensor(1.f));
  const float* const before[] = {address(state.rows[0]), address(state.rows[1])};
  const Tensor kept = state.rows[1];
  state = step(std::move(state), tensor(3.f));
  EXPECT_EQ(address(state.rows[0]), before[0]);
  EXPECT_NE(address(state.rows[1]), before[1]);
  EXPECT_EQ(sum(kept).item<float>(), 3);
  EXPECT_EQ(sum(state.rows[1]).item<float>(), 6);
  EXPECT_EQ(state.position.item<int>(), 4);
}

// Trees that share objects give up nothing.
TEST(CompileDonation, SharedTreesKeepTheirTensors) {
  const auto step = compile(
      [](const std::shared_ptr<Tensor>& row, const Tensor& position) { return written(*row, tensor(1.f), position); });
  const auto row = std::make_shared<Tensor>(zeros({length}));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(sum(step(std::shared_ptr<Tensor>(row), at_position(i))).item<float>(), 1);
    ASSERT_TRUE(row->defined());
    EXPECT_EQ(sum(*row).item<float>(), 0);
  }
}

// A call whose path is not recorded runs the function with its arguments.
TEST(CompileDonation, ArgumentsAreThereForAPathThatIsNotRecorded) {
  const auto step = compile([](const Tensor& row, const Tensor& value, const Tensor& position) {
    const Tensor next = written(row, value, position);
    return value > 0 ? next : next * 2;
  });
  Tensor row = zeros({length});
  for (Index i = 0; i < 3; ++i) row = step(std::move(row), tensor(1.f), at_position(i));
  row = step(std::move(row), tensor(-1.f), at_position(3));
  EXPECT_EQ(sum(row).item<float>(), 4);
  EXPECT_EQ(step.recordings(), 2u);
  for (Index i = 4; i < 8; ++i) row = step(std::move(row), tensor(1.f), at_position(i));
  EXPECT_EQ(sum(row).item<float>(), 8);
}

// An error before the first write leaves the arguments to the function, which throws it.
TEST(CompileDonation, Errors) {
  const auto step = compile(written);
  Tensor row = zeros({length});
  for (Index i = 0; i < 3; ++i) row = step(std::move(row), tensor(1.f), at_position(i));
  EXPECT_THROW(step(std::move(row), tensor(1.f), at_position(length)), IndexError);
  row = zeros({length});
  EXPECT_EQ(sum(step(std::move(row), tensor(1.f), at_position(1))).item<float>(), 1);

  // After an error the function itself runs, with the arguments as they were, and may catch it.
  const auto two = compile([](const Tensor& a, const Tensor& b, const Tensor& i, const Tensor& j) {
    const Tensor first = written(a, tensor(1.f), i);
    try {
      return std::pair(first, written(b, sum(first), j));
    } catch (const IndexError&) {
      return std::pair(a * 1, b);
    }
  });
  const auto run = [&](Index i, Index j) {
    return two(zeros({length}), zeros({length}), at_position(i), at_position(j));
  };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(sum(run(i, i).second).item<float>(), 1);
  const auto [a, b] = run(1, -length - 1);
  EXPECT_EQ(sum(a).item<float>(), 0);
  EXPECT_EQ(sum(b).item<float>(), 0);
  EXPECT_EQ(sum(run(1, 2).second).item<float>(), 1);
}

TEST(CompileDonation, CheckedCallsKeepTheirArguments) {
  const auto step = compile(written, {.check = true});
  Tensor row = zeros({length});
  for (Index i = 0; i < 6; ++i) row = step(std::move(row), tensor(1.f), at_position(i));
  EXPECT_EQ(sum(row).item<float>(), 6);
}

// Strided arguments, and parts of a larger array, are copied.
TEST(CompileDonation, ViewsAreNotWrittenTo) {
  const auto step = compile(written);
  for (int i = 0; i < 4; ++i) {
    const Tensor whole = zeros({2, length}), columns = zeros({length, 2});
    Tensor part = whole(1), column = columns(slice(), 1);
    EXPECT_EQ(sum(step(std::move(part), tensor(1.f), at_position(5))).item<float>(), 1);
    EXPECT_EQ(sum(step(std::move(column), tensor(1.f), at_position(5))).item<float>(), 1);
    EXPECT_EQ(sum(whole).item<float>(), 0);
    EXPECT_EQ(sum(columns).item<float>(), 0);
    EXPECT_EQ(sum(step(whole(1), tensor(1.f), at_position(5))).item<float>(), 1);  // not whole
  }
  for (int i = 0; i < 4; ++i) {
    Tensor part = zeros({2, length})(1);
    EXPECT_EQ(sum(step(std::move(part), tensor(1.f), at_position(5))).item<float>(), 1);
    EXPECT_EQ(sum(step(broadcast_to(zeros({}), {length}), tensor(1.f), at_position(5))).item<float>(), 1);
  }
}

TEST(CompileDonation, UnderTransforms) {
  const auto step = compile(written);
  const Tensor value = tensor({1.f, 2.f}), positions = tensor({3, 5}, int64);
  for (int i = 0; i < 4; ++i) {
    Tensor rows = zeros({2, length});
    const Tensor same = rows;
    const Tensor updated = vmap(step)(std::move(rows), value, positions);
    EXPECT_EQ(sum(same).item<float>(), 0);
    EXPECT_EQ(updated(0, 3).item<float>(), 1);
    EXPECT_EQ(updated(1, 5).item<float>(), 2);

    Tensor row = ones({length});
    const Tensor held = row;
    const auto loss = [&](Tensor x) { return sum(square(step(std::move(x), tensor(4.f), at_position(1)))); };
    const Tensor slope = grad(loss)(row);
    EXPECT_EQ(slope(1).item<float>(), 0);
    EXPECT_EQ(slope(2).item<float>(), 2);
    EXPECT_EQ(sum(held).item<float>(), length);
  }
  // A batch of rows in one compiled function, in place.
  const auto batched = compile(vmap(written));
  Tensor rows = zeros({2, length});
  for (int i = 0; i < 3; ++i) rows = batched(std::move(rows), value, positions + i);
  const float* const before = address(rows);
  rows = batched(std::move(rows), value, positions + 3);
  EXPECT_EQ(address(rows), before);
  EXPECT_EQ(sum(rows).item<float>(), 12);
}

TEST(CompileDonation, Nested) {
  const auto inner = compile(written);
  const auto outer = compile([&](Tensor row, const Tensor& position) {
    const Tensor before = row;
    Tensor next = inner(std::move(row), tensor(1.f), position);
    return std::pair(next, sum(before));
  });
  Tensor row = zeros({length});
  for (Index i = 0; i < 6; ++i) {
    Tensor sum_before;
    std::tie(row, sum_before) = outer(std::move(row), at_position(i));
    EXPECT_EQ(sum_before.item<float>(), static_cast<float>(i));
  }
  EXPECT_EQ(sum(row).item<float>(), 6);
}

// The state of a scan is computed in place, and an output of the scan lies apart from it.
TEST(CompileDonation, ScanOfUpdates) {
  const auto run = compile([](const Tensor& row, const Tensor& positions) {
    return scan([](const Tensor& r, const Tensor& position) {
      const Tensor once = written(r, tensor(1.f), position), twice = written(once, tensor(2.f), position + 1);
      return std::pair(twice, once);
    })(row, positions);
  });
  for (int i = 0; i < 4; ++i) {
    const auto [last, all] = run(zeros({length}), tensor({0, 2, 4}, int64));
    EXPECT_EQ(sum(last).item<float>(), 9);
    EXPECT_TRUE(array_equal(sum(all, 1), tensor({1.f, 4.f, 7.f})));
  }
}

}  // namespace
