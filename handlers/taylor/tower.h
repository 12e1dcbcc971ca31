// Towers: the Taylor coefficients of the result of one operation, by its JVP rule.
//
//   y = exp(x)        y' = y x'        y_k = (y x')_(k-1) / k
//
// The rule runs once. Its operations, of which the tower consists, compute no coefficients then;
// each computes one when another operation asks for it:
//
//   a linear operation    op(x_k)
//   a bilinear one        sum_i op(a_i, b_(k-i))
//   Op::series            by the rule for series: quotients, for example
//   any other             (y')_(k-1) / k, with y' by its own JVP rule
//
// Here y_k asks for y_0, ..., y_(k-1), so that the coefficients of y and of y x' are computed in
// turn. To evaluate the rule again for each order would take a number of operations exponential in
// the order. If a rule performs an operation which the tower already has, on the same values, it
// gets the values of that operation. So sin, whose rule performs cos, and cos, whose rule performs
// sin, need no third operation.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <stave/core/op/op.h>

namespace stave_detail {

using namespace stave;

class JetHandler;
struct Lazy;

/// The Taylor coefficients of one value, as far as they are known.
struct Series {
  std::vector<Tensor> known;   // x_1, x_2, ...; undefined: zero
  std::vector<Tensor> slopes;  // none, 2 x_2, 3 x_3, ...: those of x', as far as they are computed
  Lazy* source = nullptr;      // computes the next coefficients; null: they are zero
  bool has_ended = false;      // the tower that would compute more has ended
};
using SeriesPtr = std::shared_ptr<Series>;

/// A value, and its series. A null series means that the value is a constant.
struct ValueWithSeries {
  Tensor value;
  SeriesPtr series;
};

/// An operation of a tower, whose coefficients are computed when they are asked for; or, if `call`
/// is empty, the derivative of a value or a value with a given derivative.
struct Lazy {
  JetHandler* jet;  // the handler under which the rule runs
  std::optional<Call> call;
  Outputs outputs;                   // the coefficients of order 0, without notes of the handler
  SmallVector<SeriesPtr, 1> series;  // the series of the outputs
  SmallVector<SeriesPtr, 3> inputs;  // the series of the inputs
  SeriesPtr derivative_of;
  bool is_derived = false;
  bool is_in_loop = false;                  // added under Tower::InLoop
  std::vector<ValueWithSeries> derivative;  // y'(t) for each output, once is_derived is true
  std::vector<Tensor> kept;                 // what the rule Op::series keeps
};

class Tower {
 public:
  /// A tower of coefficients up to `order`.
  explicit Tower(int order) : order_(order) {}
  /// Ends the tower: coefficients that are not known by then cannot be computed any more.
  ~Tower();
  Tower(const Tower&) = delete;

  /// Performs a call whose inputs have these series, or finds it in the tower. Throws
  /// TransformError if the tower becomes too large.
  Lazy& perform_call(JetHandler& jet, const Call& call, SmallVector<SeriesPtr, 3> inputs);
  /// Adds a call of a higher-order operation whose outputs are known.
  Lazy& add_call(JetHandler& jet, Call call, SmallVector<SeriesPtr, 3> inputs, Outputs outputs);
  /// Adds a value whose derivative the caller sets in Lazy::derivative.
  Lazy& add_solution(JetHandler& jet, Tensor start);

  /// Coefficient k >= 1 of a series; undefined: zero.
  Tensor coefficient(const SeriesPtr& series, int k);
  /// Computes all coefficients of an operation.
  void complete(Lazy& y);
  /// Computes all coefficients of the solution y, order by order. For each order it goes through
  /// the operations of the tower in the order in which they were performed, so that no coefficient
  /// is computed by a deep recursion.
  void complete_solution(Lazy& y);

  /// While an InLoop exists, operations may be those of a loop's step that a recorder discards. So
  /// they are not found again after it, and complete_solution computes their coefficients only if
  /// the solution depends on them.
  class InLoop {
   public:
    explicit InLoop(Tower& tower) : tower_(tower), before_(std::exchange(tower.is_in_loop_, true)) {}
    ~InLoop() { tower_.is_in_loop_ = before_; }
    InLoop(const InLoop&) = delete;

   private:
    Tower& tower_;
    const bool before_;
  };

  int order() const noexcept { return order_; }
  /// The size of the tower: the number of operations that rules performed, where an operation on
  /// larger tensors than those of the program's operations counts more than once.
  double size() const noexcept { return size_; }

 private:
  class Context;

  Lazy& add(std::unique_ptr<Lazy> lazy);
  void count(const Lazy& y);
  void extend(Lazy& y, int k);
  void by_structure(Lazy& y, int k);
  Outputs linear(const Lazy& y, std::span<const Tensor> coefficients);
  void by_rule(Lazy& y, int k);
  void derive(Lazy& y);
  Tensor in(const Lazy& y, std::size_t i, int k);
  Tensor slope(const SeriesPtr& series, int k);
  Tensor derivative_of(JetHandler& jet, const Tensor& x, const SeriesPtr& series);

  const int order_;
  std::vector<std::unique_ptr<Lazy>> all_;
  std::unordered_multimap<std::size_t, Lazy*> calls_;  // by key_of
  std::unordered_map<const Series*, Lazy*> derivatives_;
  const char* name_ = "";  // the program's last operation, for errors
  double unit_ = 1;        // the largest number of elements of an operation of the program
  double size_ = 0, most_ = 0;
  int deriving_ = 0;  // the number of rules that are running
  bool is_in_loop_ = false;
};

}  // namespace stave_detail
