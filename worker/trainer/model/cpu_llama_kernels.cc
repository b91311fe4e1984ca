#include "worker/trainer/model/cpu_llama_kernels.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "worker/trainer/model/cpu_kernels.h"
#include "worker/trainer/model/cross_entropy_rows.h"

namespace paceline {
namespace {

// Minimum elements per thread: less is not worth waking another one.
constexpr int64_t kGrain = 32768;

template <typename F>
void ForRows(int64_t rows, int64_t row_size, const F& run) {
  at::parallel_for(0, rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, row_size)), run);
}

// Elements as the loops take them; the bits of bfloat16 are uint16_t. Throws if the tensor has
// others.
template <typename T>
const T* From(const at::Tensor& tensor) {
  if constexpr (std::is_same_v<T, uint16_t>) {
    return reinterpret_cast<const T*>(tensor.const_data_ptr<c10::BFloat16>());
  } else {
    return tensor.const_data_ptr<T>();
  }
}
template <typename T>
T* To(const at::Tensor& tensor) {
  if constexpr (std::is_same_v<T, uint16_t>) {
    return reinterpret_cast<T*>(tensor.mutable_data_ptr<c10::BFloat16>());
  } else {
    return tensor.mutable_data_ptr<T>();
  }
}

// Calls `run` with a value of the type of the tensor's elements.
template <typename F>
void WithElement(const at::Tensor& tensor, const F& run) {
  if (tensor.scalar_type() == at::kFloat) {
    run(float{});
  } else {
    TORCH_CHECK(tensor.scalar_type() == at::kBFloat16, "no loop for ", tensor.scalar_type());
    run(uint16_t{});
  }
}

}  // namespace

bool HasCpuKernel(const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  return x.device().is_cpu() && (type == at::kFloat || type == at::kBFloat16);
}

void RmsNormOnCpu(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                  const at::Tensor& y, const at::Tensor& scale) {
  const int64_t rows = x.size(0);
  const int64_t dim = x.size(1);
  WithElement(y, [&]([[maybe_unused]] auto element) {
    using T = decltype(element);
    const float* const from = From<float>(x);
    const float* const weights = From<float>(weight);
    T* const to = To<T>(y);
    float* const scales = To<float>(scale);
    ForRows(rows, dim, [&](int64_t begin, int64_t end) {
      RmsNormRows(from + begin * dim, weights, end - begin, dim, static_cast<float>(epsilon),
                  to + begin * dim, scales + begin);
    });
  });
}

at::Tensor RmsNormBackwardOnCpu(const at::Tensor& grad_y, const at::Tensor& x,
                                const at::Tensor& weight, const at::Tensor& scale,
                                const at::Tensor& grad_x) {
  // Rows per partial sum. It does not depend on the number of threads, so neither does the
  // result.
  constexpr int64_t kRowsPerSum = 64;
  const int64_t rows = x.size(0);
  const int64_t dim = x.size(1);
  const int64_t sums = (rows + kRowsPerSum - 1) / kRowsPerSum;
  const at::Tensor partial = at::empty({sums, dim}, weight.options());
  WithElement(grad_y, [&]([[maybe_unused]] auto element) {
    using T = decltype(element);
    const T* const grad_from = From<T>(grad_y);
    const float* const from = From<float>(x);
    const float* const weights = From<float>(weight);
    const float* const scales = From<float>(scale);
    float* const to = To<float>(grad_x);
    float* const sums_to = To<float>(partial);
    at::parallel_for(0, sums, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i * kRowsPerSum;
        RmsNormRowsBackward(grad_from + row * dim, from + row * dim, weights, scales + row,
                            std::min(kRowsPerSum, rows - row), dim, to + row * dim,
                            sums_to + i * dim);
      }
    });
  });
  return partial.sum(0);
}

void RotateOnCpu(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, int direction,
                 const at::Tensor& y) {
  const int64_t length = x.size(1);
  const int64_t heads = x.size(2);
  const int64_t dim = x.size(3);
  TORCH_CHECK(cos.size(0) >= length && 2 * cos.size(1) == dim && sin.sizes() == cos.sizes(),
              "angles of ", cos.sizes(), " are not for heads of ", x.sizes());
  WithElement(x, [&]([[maybe_unused]] auto element) {
    using T = decltype(element);
    const T* const from = From<T>(x);
    const float* const cosines = From<float>(cos);
    const float* const sines = From<float>(sin);
    T* const to = To<T>(y);
    ForRows(x.size(0) * length, heads * dim, [&](int64_t begin, int64_t end) {
      RotateRows(from + begin * heads * dim, cosines, sines, begin, end - begin, length, heads, dim,
                 static_cast<float>(direction), to + begin * heads * dim);
    });
  });
}

void SwiGluOnCpu(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& y) {
  WithElement(gate, [&]([[maybe_unused]] auto element) {
    using T = decltype(element);
    const T* const gates = From<T>(gate);
    const T* const ups = From<T>(up);
    T* const to = To<T>(y);
    at::parallel_for(0, gate.numel(), kGrain, [&](int64_t begin, int64_t end) {
      SwiGluElements(gates + begin, ups + begin, end - begin, to + begin);
    });
  });
}

void SwiGluBackwardOnCpu(const at::Tensor& grad_y, const at::Tensor& gate, const at::Tensor& up,
                         const at::Tensor& grad_gate, const at::Tensor& grad_up) {
  WithElement(gate, [&]([[maybe_unused]] auto element) {
    using T = decltype(element);
    const T* const from = From<T>(grad_y);
    const T* const gates = From<T>(gate);
    const T* const ups = From<T>(up);
    T* const gates_to = To<T>(grad_gate);
    T* const ups_to = To<T>(grad_up);
    at::parallel_for(0, gate.numel(), kGrain, [&](int64_t begin, int64_t end) {
      SwiGluElementsBackward(from + begin, gates + begin, ups + begin, end - begin,
                             gates_to + begin, ups_to + begin);
    });
  });
}

at::Tensor CrossEntropyOnCpu(const at::Tensor& logits, const at::Tensor& targets,
                             const at::Tensor& shares) {
  const int64_t tokens = logits.size(0);
  const int64_t classes = logits.size(1);
  const auto* const own = From<int64_t>(targets);
  for (int64_t i = 0; i < tokens; ++i) {
    TORCH_CHECK_INDEX(own[i] >= 0 && own[i] < classes, "a target is class ", own[i],
                      ", and there are ", classes);
  }
  at::Tensor log_probabilities = at::empty({tokens}, logits.options().dtype(at::kFloat));
  const float* const factors = shares.defined() ? From<float>(shares) : nullptr;
  float* const to = To<float>(log_probabilities);
  WithElement(logits, [&]([[maybe_unused]] auto element) {
    using T = decltype(element);
    T* const rows = To<T>(logits);
    ForRows(tokens, classes, [&](int64_t begin, int64_t end) {
      CrossEntropyRows(rows + begin * classes, end - begin, classes, own + begin,
                       factors == nullptr ? nullptr : factors + begin, to + begin);
    });
  });
  return log_probabilities;
}

}  // namespace paceline
