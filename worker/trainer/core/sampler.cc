#include "worker/trainer/core/sampler.h"

#include <array>
#include <cstddef>

namespace paceline {

DataPosition Sampler::Take() {
  const int64_t together = options_.batch * options_.world_size;
  DataPosition begin = position_;
  const bool endless = options_.mixture != nullptr;
  if (!endless && begin.offset > options_.samples - together) begin = {begin.epoch + 1, 0};
  position_ = {begin.epoch, begin.offset + together};
  return begin;
}

void Sampler::Skip() { Take(); }

void Sampler::Next(std::vector<int64_t>* indices) {
  const DataPosition begin = Take();
  indices->resize(static_cast<size_t>(options_.batch));
  if (options_.mixture != nullptr) return NextOfMixture(begin.offset + options_.rank, indices);
  const Permutation permutation(options_.samples, options_.seed,
                                static_cast<uint64_t>(begin.epoch));
  int64_t position = begin.offset + options_.rank;
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
