// Small checkpoints for tests, made from the format's own parts but without a trainer.
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
};

// An fp32 tensor of these values.
TensorToStore FloatsToStore(const std::string& name, const std::vector<int64_t>& shape,
                            const std::vector<float>& values);

// Writes a complete checkpoint of `manifest.ranks` shards into `directory`, which is made; the
// rows of each tensor are spread over the shards. Files and tensors of `manifest` are replaced.
void WriteCheckpoint(const std::string& directory, Manifest manifest,
                     const std::vector<TensorToStore>& tensors);

// Flips the lowest bit of the first byte of that slice of a tensor.
void DamageSlice(const std::string& directory, const std::string& tensor, size_t slice);

}  // namespace paceline

#endif  // COMMON_EXPORT_TESTING_CHECKPOINT_WRITER_H_
