#include "worker/trainer/model/flop_counter.h"

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace paceline {
namespace {

// Of an operator's call, without what the caller has on its stack before them.
using Inputs = c10::ArrayRef<const c10::IValue>;

struct Formula {
  // Returns the operations, or nothing if the inputs are not as expected.
  std::optional<double> (*operations)(Inputs inputs);
  size_t typed_by;  // The input whose type is that of the products.
  bool convolution = false;
};

c10::IntArrayRef SizesOf(const c10::IValue& value) { return value.toTensor().sizes(); }

double ProductOf(c10::IntArrayRef sizes) {
  double product = 1;
  for (const int64_t size : sizes) product *= static_cast<double>(size);
  return product;
}

// Whether its shape says how many values it has, which that of a sparse tensor does not. One that
// consists of several of different shapes has none.
bool IsRegular(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.is_nested() && tensor.layout() == at::kStrided;
}

bool AreTensors(Inputs inputs, size_t first, size_t count) {
  if (inputs.size() < first + count) return false;
  for (size_t i = first; i < first + count; ++i) {
    if (!inputs[i].isTensor() || !IsRegular(inputs[i].toTensor())) return false;
  }
  return true;
}

// [..., m, k] times [..., k, n], the second of as many matrices or of one; input `kFirst` and the
// next one.
template <size_t kFirst>
std::optional<double> MatrixProduct(Inputs inputs) {
  if (!AreTensors(inputs, kFirst, 2)) return std::nullopt;
  const c10::IntArrayRef a = SizesOf(inputs[kFirst]);
  const c10::IntArrayRef b = SizesOf(inputs[kFirst + 1]);
  if (a.size() < 2 || b.size() < 2) return std::nullopt;
  return 2 * ProductOf(a) * static_cast<double>(b.back());
}

// Groups of rows, or of columns, or of both, which a third input divides: [m, k] by [g, k, n];
// [g, m, k] by [k, n]; [m, k] by [k, n]; or [g, m, k] by [g, k, n]. Each row of the result is made
// by one group, and where both have two dimensions, k is what is divided.
std::optional<double> GroupedProduct(Inputs inputs) {
  if (!AreTensors(inputs, 0, 2)) return std::nullopt;
  const c10::IntArrayRef a = SizesOf(inputs[0]);
  const c10::IntArrayRef b = SizesOf(inputs[1]);
  if (a.size() < 2 || b.size() < 2) return std::nullopt;
  const bool divides_columns = a.size() == 3 && b.size() == 2;
  const double rows = divides_columns ? static_cast<double>(a[1] * a[2]) : ProductOf(a);
  return 2 * rows * static_cast<double>(b.back());
}

// Query, key and value from input `kFirst` on: [batch, heads, length, dim]; of the query's heads.
template <size_t kFirst>
std::optional<double> Attention(Inputs inputs) {
  if (!AreTensors(inputs, kFirst, 3)) return std::nullopt;
  const c10::IntArrayRef query = SizesOf(inputs[kFirst]);
  const c10::IntArrayRef key = SizesOf(inputs[kFirst + 1]);
  const c10::IntArrayRef value = SizesOf(inputs[kFirst + 2]);
  if (query.size() != 4 || key.size() != 4 || value.size() != 4) return std::nullopt;
  const auto scores = ProductOf(query.slice(0, 3)) * static_cast<double>(key[2]);
  return 2 * scores * static_cast<double>(query[3] + value[3]);
}

// Each of the two products has two gradients.
std::optional<double> AttentionBackward(Inputs inputs) {
  const std::optional<double> forward = Attention<1>(inputs);
  return forward.has_value() ? std::optional<double>(2 * *forward) : std::nullopt;
}

// Of a weight [out, in / groups, ...], or [in, out / groups, ...] if transposed, that is applied at
// `places` per sample.
double Convolution(c10::IntArrayRef input, c10::IntArrayRef weight, double places) {
  return 2 * static_cast<double>(input[0]) * places * ProductOf(weight);
}

// convolution(input, weight, bias, stride, padding, dilation, transposed, ...).
std::optional<double> ConvolutionForward(Inputs inputs) {
  if (inputs.size() < 7 || !AreTensors(inputs, 0, 2) || !inputs[6].isBool()) return std::nullopt;
  const c10::IntArrayRef input = SizesOf(inputs[0]);
  const c10::IntArrayRef weight = SizesOf(inputs[1]);
  if (input.size() < 3 || weight.size() != input.size()) return std::nullopt;
  if (inputs[6].toBool()) return Convolution(input, weight, ProductOf(input.slice(2)));
  // Stride, padding, dilation: one for all dimensions, or each its own.
  std::vector<int64_t> of[3];
  for (size_t i = 0; i < 3; ++i) {
    if (!inputs[3 + i].isIntList()) return std::nullopt;
    of[i] = inputs[3 + i].toIntVector();
    if (of[i].size() != 1 && of[i].size() != input.size() - 2) return std::nullopt;
  }
  double places = 1;
  for (size_t d = 2; d < input.size(); ++d) {
    const auto in_dimension = [&](size_t i) { return of[i][of[i].size() == 1 ? 0 : d - 2]; };
    if (in_dimension(0) <= 0) return std::nullopt;
    const int64_t covered = in_dimension(2) * (weight[d] - 1) + 1;
    places *= static_cast<double>((input[d] + 2 * in_dimension(1) - covered) / in_dimension(0) + 1);
  }
  return Convolution(input, weight, places);
}

// convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation,
// transposed, output_padding, groups, output_mask).
std::optional<double> ConvolutionBackward(Inputs inputs) {
  if (inputs.size() < 11 || !AreTensors(inputs, 0, 3) || !inputs[7].isBool() ||
      !inputs[10].isBoolList()) {
    return std::nullopt;
  }
  const c10::IntArrayRef input = SizesOf(inputs[1]);
  const c10::IntArrayRef output = inputs[7].toBool() ? input : SizesOf(inputs[0]);
  if (output.size() < 3) return std::nullopt;
  const c10::List<bool> mask = inputs[10].toBoolList();
  if (mask.size() < 2) return std::nullopt;
  const int gradients = int{mask.get(0)} + int{mask.get(1)};  // Of the input, of the weight.
  return gradients * Convolution(input, SizesOf(inputs[2]), ProductOf(output.slice(2)));
}

const Formula* FormulaOf(absl::string_view name) {
  static const auto* const formulas = new std::map<absl::string_view, Formula>{
      {"aten::mm", {MatrixProduct<0>, 0}},
      {"aten::bmm", {MatrixProduct<0>, 0}},
      {"aten::addmm", {MatrixProduct<1>, 1}},
      {"aten::addmm_", {MatrixProduct<1>, 1}},
      {"aten::_addmm_activation", {MatrixProduct<1>, 1}},
      {"aten::baddbmm", {MatrixProduct<1>, 1}},
      {"aten::baddbmm_", {MatrixProduct<1>, 1}},
      {"aten::addbmm", {MatrixProduct<1>, 1}},
      {"aten::addbmm_", {MatrixProduct<1>, 1}},
      {"aten::_scaled_mm", {MatrixProduct<0>, 0}},
      {"aten::_grouped_mm", {GroupedProduct, 0}},
      {"aten::convolution", {ConvolutionForward, 0, /*convolution=*/true}},
      {"aten::_convolution", {ConvolutionForward, 0, /*convolution=*/true}},
      {"aten::convolution_backward", {ConvolutionBackward, 1, /*convolution=*/true}},
      {"aten::_scaled_dot_product_flash_attention", {Attention<0>, 0}},
      {"aten::_scaled_dot_product_flash_attention_backward", {AttentionBackward, 1}},
      {"aten::_scaled_dot_product_flash_attention_for_cpu", {Attention<0>, 0}},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", {AttentionBackward, 1}},
      {"aten::_scaled_dot_product_efficient_attention", {Attention<0>, 0}},
      {"aten::_scaled_dot_product_efficient_attention_backward", {AttentionBackward, 1}},
      {"aten::_scaled_dot_product_cudnn_attention", {Attention<0>, 0}},
      {"aten::_scaled_dot_product_cudnn_attention_backward", {AttentionBackward, 1}},
      {"aten::_scaled_dot_product_fused_attention_overrideable", {Attention<0>, 0}},
      {"aten::_scaled_dot_product_fused_attention_overrideable_backward", {AttentionBackward, 1}},
  };
  const auto found = formulas->find(name);
  return found == formulas->end() ? nullptr : &found->second;
}

// What multiplies much, and has no formula here: whole recurrent networks, attention over sequences
// of different lengths, products of three.
bool IsOpaque(absl::string_view name) {
  for (const absl::string_view beginning :
       {"aten::_cudnn_rnn", "aten::miopen_rnn", "aten::mkldnn_rnn_layer", "aten::_flash_attention_",
        "aten::_efficient_attention_", "aten::_trilinear"}) {
    if (absl::StartsWith(name, beginning)) return true;
  }
  return false;
}

void AddTo(Flops& sum, double operations, at::ScalarType type, bool convolution) {
  switch (type) {
    case at::kBFloat16:
    case at::kHalf:
      sum.half += operations;
      return;
    case at::kFloat:
      (convolution ? sum.convolutions : sum.matrices) += operations;
      return;
    default:
      sum.other += operations;
  }
}

// Operators that count, inside of which this thread is: their own parts do not count again.
thread_local int inside = 0;

// Of an operator that counts.
struct Inside : at::ObserverContext {};

}  // namespace

struct FlopCounter::Tally {
  // A backward pass may run on several threads.
  absl::Mutex mu;
  bool backward ABSL_GUARDED_BY(mu) = false;
  Flops flops ABSL_GUARDED_BY(mu);
  std::string unknown ABSL_GUARDED_BY(mu);
  // Of the callbacks below; unset: it does not count.
  std::optional<at::CallbackHandle> handle;

  static std::unique_ptr<at::ObserverContext> Start(const at::RecordFunction& function);
  static void End(const at::RecordFunction& function, at::ObserverContext* context);

  // What callbacks of any thread add to; null: nobody counts. They are called by threads that run a
  // pass of the counter's owner, which ends before the counter does.
  static std::atomic<Tally*>& Current() {
    static std::atomic<Tally*> current{nullptr};
    return current;
  }
};

FlopCounter::FlopCounter() : tally_(std::make_unique<Tally>()) {
  Tally* none = nullptr;
  if (!Tally::Current().compare_exchange_strong(none, tally_.get())) return;
  tally_->handle = at::addThreadLocalCallback(at::RecordFunctionCallback(Tally::Start, Tally::End)
                                                  .needsInputs(true)
                                                  .scopes({at::RecordScope::FUNCTION}));
}

FlopCounter::~FlopCounter() {
  if (!tally_->handle.has_value()) return;
  at::removeCallback(*tally_->handle);
  Tally::Current() = nullptr;
}

void FlopCounter::BeginForward() {
  const absl::MutexLock lock(&tally_->mu);
  tally_->backward = false;
}

void FlopCounter::BeginBackward() {
  const absl::MutexLock lock(&tally_->mu);
  tally_->backward = true;
}

Flops FlopCounter::flops() const {
  const absl::MutexLock lock(&tally_->mu);
  return tally_->flops;
}

std::string FlopCounter::unknown() const {
  const absl::MutexLock lock(&tally_->mu);
  return tally_->unknown;
}

std::unique_ptr<at::ObserverContext> FlopCounter::Tally::Start(const at::RecordFunction& function) {
  const absl::string_view name = function.name();
  const Formula* const formula = FormulaOf(name);
  if (formula == nullptr && !IsOpaque(name)) return nullptr;
  Tally* const tally = Tally::Current();
  if (inside++ > 0 || tally == nullptr) return std::make_unique<Inside>();
  // TorchScript's interpreter passes all of its stack, which ends with the inputs.
  Inputs inputs = function.inputs();
  const size_t count = function.num_inputs();
  if (inputs.size() > count) inputs = inputs.slice(inputs.size() - count);
  const absl::MutexLock lock(&tally->mu);
  if (tally->backward && at::GradMode::is_enabled()) return std::make_unique<Inside>();
  const std::optional<double> operations =
      formula == nullptr ? std::nullopt : formula->operations(inputs);
  if (operations.has_value()) {
    AddTo(tally->flops, *operations, inputs[formula->typed_by].toTensor().scalar_type(),
          formula->convolution);
  } else if (tally->unknown.empty()) {
    tally->unknown = std::string(name);
  }
  return std::make_unique<Inside>();
}

void FlopCounter::Tally::End(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  if (context != nullptr) --inside;
}

}  // namespace paceline
