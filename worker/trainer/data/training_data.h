// Several files as one data set: those that a job trains on (dataset.h).
#ifndef WORKER_TRAINER_DATA_TRAINING_DATA_H_
#define WORKER_TRAINER_DATA_TRAINING_DATA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/mixture.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/data/open_dataset.h"

namespace paceline {

// Data sets one behind the other. Thread-safe: immutable.
class JoinedDataset : public Dataset {
 public:
  // Requires: there is one, and all have the format of the first.
  explicit JoinedDataset(std::vector<std::unique_ptr<Dataset>> parts);

  const std::string& path() const override { return parts_.front()->path(); }
  SampleFormat format() const override { return parts_.front()->format(); }
  int64_t size() const override { return firsts_.back(); }
  std::vector<int64_t> sizes() const override;
  bool is_remote() const override;
  bool Expect(absl::Span<const int64_t> indices) const override;
  Batch Allocate(int64_t samples, bool pinned) const override {
    return parts_.front()->Allocate(samples, pinned);
  }
  absl::Status ReadRows(absl::Span<const int64_t> indices, int64_t row,
                        Batch* batch) const override;

 private:
  size_t PartOf(int64_t index) const;

  const std::vector<std::unique_ptr<Dataset>> parts_;
  std::vector<int64_t> firsts_;  // Number of the first sample of each, and their end.
};

// Opens what a job trains on: `train` of the opener's configuration, or all of its `sources`.
// Errors as for DatasetOpener; InvalidArgument also for sources that do not go together, and for a
// file that is not the one that the job was submitted with.
absl::StatusOr<std::unique_ptr<Dataset>> OpenTrainingData(DatasetOpener& opener);

// The mixture that the sources' weights ask for, of what OpenTrainingData has opened. Null: they
// have none.
std::shared_ptr<const Mixture> MixtureOf(const DataConfig& config, const Dataset& dataset);

}  // namespace paceline

#endif  // WORKER_TRAINER_DATA_TRAINING_DATA_H_
