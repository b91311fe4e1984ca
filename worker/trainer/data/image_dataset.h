// Images from a shard (dataset.h). A pixel p becomes (p / 255 - 0.5) / 0.5.
#ifndef WORKER_TRAINER_DATA_IMAGE_DATASET_H_
#define WORKER_TRAINER_DATA_IMAGE_DATASET_H_

#include <array>
#include <string>

#include "common/image_shard/image_shard.h"
#include "worker/trainer/data/dataset.h"

namespace paceline {

class ImageDataset : public Dataset {
 public:
  explicit ImageDataset(ImageShard shard);

  const std::string& path() const override { return shard_.path(); }
  SampleFormat format() const override;
  int64_t size() const override { return shard_.size(); }
  bool is_remote() const override { return shard_.is_remote(); }
  bool Expect(absl::Span<const int64_t> indices) const override;
  Batch Allocate(int64_t samples, bool pinned) const override;
  absl::Status ReadRows(absl::Span<const int64_t> indices, int64_t row,
                        Batch* batch) const override;

 private:
  const ImageShard shard_;
  std::array<float, 256> values_;  // By pixel byte.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_DATA_IMAGE_DATASET_H_
