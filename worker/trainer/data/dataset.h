// Samples by number, out of mapped files.
//
// Two kinds: image shards (docs/image-shards.md) and token files (docs/token-files.md). A
// sample of a token file of T tokens in sequences of L is sequence i: inputs are the tokens
// i*L .. i*L+L-1, targets the tokens after each of them; there are floor((T-1) / L) of them.
#ifndef WORKER_TRAINER_DATA_DATASET_H_
#define WORKER_TRAINER_DATA_DATASET_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/image_shard/image_shard.h"
#include "worker/trainer/config.h"

namespace paceline {

struct Batch {
  at::Tensor inputs;   // Float [samples, channels, height, width]; int64 [samples, length].
  at::Tensor targets;  // Int64: labels [samples]; tokens [samples, length].
  int64_t samples = 0;
  int64_t tokens = 0;   // 0 for images.
  double workload = 0;  // Sum of the squared lengths of the sequences; samples for images.
};

// What a model has to know of its data. Exactly one of image and sequence_length is set.
struct SampleFormat {
  std::optional<ImageFormat> image;
  std::optional<int64_t> sequence_length;
};

// Thread-safe: it never changes.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const std::string& path() const = 0;
  virtual SampleFormat format() const = 0;
  virtual int64_t size() const = 0;  // Samples.

  // Tensors on the host for `samples` samples; pinned for fast copies to a GPU.
  virtual Batch Allocate(int64_t samples, bool pinned) const = 0;

  // Reads these samples into the first rows of `batch`, which then has as many rows as there
  // are samples. Requires: at most as many as were allocated. With file and offset: DataLoss when
  // the file does not hold what its header promised, InvalidArgument for a token that the model
  // does not have.
  virtual absl::Status Read(absl::Span<const int64_t> indices, Batch* batch) const = 0;
};

// Opens `path`, the value of the job file's `key` ("data.train"), which is named in errors;
// InvalidArgument for all of them. The kind is told by the file's beginning; a file that is
// neither is a token file without a header if `config` gives its token type.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(absl::string_view key, const std::string& path,
                                                     const DataConfig& config);

}  // namespace paceline

#endif  // WORKER_TRAINER_DATA_DATASET_H_
