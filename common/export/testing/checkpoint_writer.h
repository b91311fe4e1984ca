// Small checkpoints for tests, made with the format's own code but without a trainer.
#ifndef COMMON_EXPORT_TESTING_CHECKPOINT_WRITER_H_
#define COMMON_EXPORT_TESTING_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/checkpoint/manifest.h"

namespace paceline {

struct TensorToStore {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
  bool by_columns = false;  // A matrix: its columns are spread over the shards, not its rows.
};

// An fp32 tensor with these values.
TensorToStore FloatsToStore(const std::string& name, const std::vector<int64_t>& shape,
                            const std::vector<float>& values);

// Writes a complete checkpoint with `manifest.ranks` shards into `directory`, which it creates.
// Spreads each tensor's rows or columns over the shards, and replaces files and tensors of
// `manifest`.
void WriteCheckpoint(const std::string& directory, Manifest manifest,
                     const std::vector<TensorToStore>& tensors);

// Flips the lowest bit in the first byte of a tensor's slice.
void DamageSlice(const std::string& directory, const std::string& tensor, size_t slice);

}  // namespace paceline

#endif  // COMMON_EXPORT_TESTING_CHECKPOINT_WRITER_H_
