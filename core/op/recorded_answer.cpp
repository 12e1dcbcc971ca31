#include <stave/core/op/recorded_answer.h>

#include <utility>

namespace stave_detail {

RecordedAnswer::RecordedAnswer(const EffectType& effect, std::any given) : type(&effect), answer(std::move(given)) {
  type->recordable->visit_answer(answer, [&](Tensor& x) { tensors.push_back(std::exchange(x, Tensor())); });
  passed.assign(tensors.size(), -1);
}

std::any RecordedAnswer::with(FunctionRef<Tensor(std::size_t)> tensor) const {
  std::any complete = answer;
  std::size_t i = 0;
  type->recordable->visit_answer(complete, [&](Tensor& x) { x = tensor(i++); });
  return complete;
}

int EffectTensors::add(const EffectType& type, std::any& effect) {
  const int first = size();
  type.recordable->visit_effect(effect, [&](Tensor& x) { tensors_.push_back(std::exchange(x, Tensor())); });
  return first;
}

void EffectTensors::put_marked(const EffectType& type, std::any& effect, int first) const {
  put_marked(type, effect, first, [](const Tensor& x) { return x; });
}

void EffectTensors::put_marked(const EffectType& type, std::any& effect, int number,
                               FunctionRef<Tensor(const Tensor&)> replace) const {
  type.recordable->visit_effect(effect, [&](Tensor& x) {
    if (const Tensor& own = (*this)[number]; own.defined()) {
      if (!marks_) marks_.emplace(make_intrusive<NotesState>(name_));
      x = marks_->put(clone_node(replace(own)), {number});
    }
    ++number;
  });
}

int EffectTensors::number_of(const Tensor& x) const noexcept {
  const Mark* const mark = marks_ ? marks_->find(x) : nullptr;
  return mark ? mark->number : -1;
}

void EffectTensors::recognise(RecordedAnswer& answer) const {
  for (std::size_t i = 0; i < answer.tensors.size(); ++i)
    if ((answer.passed[i] = number_of(answer.tensors[i])) >= 0) answer.tensors[i] = Tensor();
}

}  // namespace stave_detail
