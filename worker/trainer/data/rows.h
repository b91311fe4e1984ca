// Changes the number of rows in a batch.
#ifndef WORKER_TRAINER_DATA_ROWS_H_
#define WORKER_TRAINER_DATA_ROWS_H_

#include <ATen/core/Tensor.h>

#include "worker/trainer/data/dataset.h"

namespace paceline {

// Sets the batch's number of samples. Requires: its memory has room for them.
inline void SetRows(int64_t samples, Batch* batch) {
  batch->samples = samples;
  for (at::Tensor* tensor : {&batch->inputs, &batch->targets}) {
    if (tensor->size(0) == samples) continue;
    std::vector<int64_t> sizes = tensor->sizes().vec();
    sizes[0] = samples;
    *tensor = tensor->as_strided(sizes, tensor->strides());
  }
}

}  // namespace paceline

#endif  // WORKER_TRAINER_DATA_ROWS_H_
