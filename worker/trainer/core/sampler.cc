#include "worker/trainer/core/sampler.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace paceline {

Sampler::Pass Sampler::Skip() {
  const int64_t together = options_.batch * options_.world_size;
  Pass pass{position_, together};
  if (options_.mixture == nullptr) {
    const int64_t least = options_.drop_last ? together : 1;
    if (pass.begin.offset > options_.samples - least) pass.begin = {pass.begin.epoch + 1, 0};
    pass.samples = std::min(together, options_.samples - pass.begin.offset);
  }
  position_ = {pass.begin.epoch, pass.begin.offset + pass.samples};
  return pass;
}

void Sampler::Next(std::vector<int64_t>* indices) {
  const Pass pass = Skip();
  // The positions rank, rank + world_size, ... below pass.samples.
  const int64_t own =
      (pass.samples - options_.rank + options_.world_size - 1) / options_.world_size;
  indices->resize(static_cast<size_t>(own));
  int64_t position = pass.begin.offset + options_.rank;
  if (options_.mixture != nullptr) return NextOfMixture(position, indices);
  const Permutation permutation(options_.samples, options_.seed,
                                static_cast<uint64_t>(pass.begin.epoch));
  for (int64_t& index : *indices) {
    index = options_.shuffle ? permutation.At(position) : position;
    position += options_.world_size;
  }
}

void Sampler::NextOfMixture(int64_t position, std::vector<int64_t>* indices) const {
  const Mixture& mixture = *options_.mixture;
  std::array<Mixture::Taken, Mixture::kBlock> block;
  int64_t number = -1;
  for (int64_t& index : *indices) {
    if (position / Mixture::kBlock != number) {
      number = position / Mixture::kBlock;
      block = mixture.Block(number, options_.seed);
    }
    const Mixture::Taken& taken = block[static_cast<size_t>(position % Mixture::kBlock)];
    index = mixture.IndexOf(taken, options_.shuffle, options_.seed);
    position += options_.world_size;
  }
}

}  // namespace paceline
