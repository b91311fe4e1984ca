// Opens the files of data sets: of images or tokens, on this machine or in a store.
#ifndef WORKER_TRAINER_DATA_OPEN_DATASET_H_
#define WORKER_TRAINER_DATA_OPEN_DATASET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/config.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/object_store/read_interrupt.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

class ObjectStore;

// Opens files of one configuration, which share what they need for stores. Thread-compatible.
class DatasetOpener {
 public:
  // `config` must outlive this.
  explicit DatasetOpener(const DataConfig& config) : config_(config) {}

  // Opens `path`, the value of the job file's `key` ("data.train"). All errors name the key. They
  // are InvalidArgument, but DeadlineExceeded where a store does not answer, ResourceExhausted
  // where there is too little memory, and Cancelled when it was interrupted. The file's beginning
  // tells its kind; a file of neither kind is taken for a token file without header if the
  // configuration gives a token type.
  absl::StatusOr<std::unique_ptr<Dataset>> Open(absl::string_view key, const std::string& path);

  const DataConfig& config() const { return config_; }
  // Of reads of what it opens: those that wait for a store, and opening.
  ReadInterrupt& read_interrupt() const { return *interrupt_; }
  // Of what it has opened. Unset: none of it is in a store.
  std::optional<ObjectFigures> objects() const;

 private:
  absl::StatusOr<std::unique_ptr<Dataset>> OpenObject(absl::string_view key,
                                                      const std::string& url);

  const DataConfig& config_;
  const std::shared_ptr<ReadInterrupt> interrupt_ = std::make_shared<ReadInterrupt>();
  std::shared_ptr<ObjectStore> store_;  // Null until an object is opened, which shares it.
  uint64_t object_bytes_ = 0;           // Of all objects that are open.
};

// DatasetOpener::Open of a single file.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(absl::string_view key, const std::string& path,
                                                     const DataConfig& config);

}  // namespace paceline

#endif  // WORKER_TRAINER_DATA_OPEN_DATASET_H_
