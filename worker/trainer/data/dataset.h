// Reads samples by number from files, which are mapped, or are objects of a store.
//
// There are two kinds of files: image shards (docs/image-shards.md) and token files
// (docs/token-files.md). A token file of T tokens has floor((T-1) / L) samples of length L: the
// inputs of sample i are the tokens i*L .. i*L+L-1, its targets the tokens after each of them.
#ifndef WORKER_TRAINER_DATA_DATASET_H_
#define WORKER_TRAINER_DATA_DATASET_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/image_shard/image_shard.h"

namespace paceline {

struct Batch {
  at::Tensor inputs;   // Float [samples, channels, height, width], or int64 [samples, length].
  at::Tensor targets;  // Int64: labels [samples] or tokens [samples, length].
  int64_t samples = 0;
  int64_t tokens = 0;   // 0 for images.
  double workload = 0;  // Sum of squared sequence lengths; number of samples for images.
};

// What a model needs to know about its data. Exactly one of image and sequence_length is set.
struct SampleFormat {
  std::optional<ImageFormat> image;
  std::optional<int64_t> sequence_length;
  // Of a token file: bytes of a token, and what all tokens are below; 0: not known.
  int token_bytes = 0;
  int64_t vocab_size = 0;
};

// "images of 3 x 32 x 32 in 10 classes", "tokens".
std::string FormatText(const SampleFormat& format);

// Thread-safe: immutable.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const std::string& path() const = 0;
  virtual SampleFormat format() const = 0;
  // Of the content, as the file says (TokenFile::hash); empty: not known.
  virtual std::string hash() const { return ""; }
  virtual int64_t size() const = 0;  // Number of samples.
  // Numbers of samples of the files, one behind the other.
  virtual std::vector<int64_t> sizes() const { return {size()}; }

  // Whether samples are fetched from a store, for which Expect is worth calling.
  virtual bool is_remote() const { return false; }
  // Begins to fetch samples that will be read soon. False: too much is asked for already; try again
  // later. Requires: is_remote().
  virtual bool Expect(absl::Span<const int64_t> /*indices*/) const { return true; }

  // Allocates host tensors for `samples` samples; pinned memory is copied faster to a GPU.
  virtual Batch Allocate(int64_t samples, bool pinned) const = 0;

  // Reads these samples into the first rows of `batch`, and sets its number of rows. Requires: no
  // more samples than were allocated. DataLoss when the file lacks what its header promised;
  // InvalidArgument for a token that the model does not have. Both name file and offset. Of an
  // object also errors of its store (ObjectStore::OpenObject).
  absl::Status Read(absl::Span<const int64_t> indices, Batch* batch) const;

  // Reads these samples into the rows from `row` on, and changes nothing else. Requires: the batch
  // has them. Errors as for Read.
  virtual absl::Status ReadRows(absl::Span<const int64_t> indices, int64_t row,
                                Batch* batch) const = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_DATA_DATASET_H_
