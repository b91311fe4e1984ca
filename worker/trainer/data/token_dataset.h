// Sequences from a token file (dataset.h).
#ifndef WORKER_TRAINER_DATA_TOKEN_DATASET_H_
#define WORKER_TRAINER_DATA_TOKEN_DATASET_H_

#include <string>

#include "common/token_file/token_file.h"
#include "worker/trainer/data/dataset.h"

namespace paceline {

class TokenDataset : public Dataset {
 public:
  // vocab_size: the model's; 0: unknown. Requires: file.size() > sequence_length >= 1.
  TokenDataset(TokenFile file, int64_t sequence_length, int64_t vocab_size);

  const std::string& path() const override { return file_.path(); }
  SampleFormat format() const override;
  std::string hash() const override { return file_.hash(); }
  int64_t size() const override { return (file_.size() - 1) / length_; }
  bool is_remote() const override { return file_.is_remote(); }
  bool Expect(absl::Span<const int64_t> indices) const override;
  Batch Allocate(int64_t samples, bool pinned) const override;
  absl::Status ReadRows(absl::Span<const int64_t> indices, int64_t row,
                        Batch* batch) const override;

 private:
  // Copies the sequence that begins at token `first`.
  absl::Status ReadSequence(int64_t first, int64_t* tokens) const;

  const TokenFile file_;
  const int64_t length_;
  const int64_t vocab_size_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_DATA_TOKEN_DATASET_H_
