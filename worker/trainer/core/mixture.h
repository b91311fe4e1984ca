// Decides which sources of a weighted mixture the samples of a job come from.
//
// The samples of a job are numbered by their position, from 0, without end. Of each block of 64
// positions, every source has its share, rounded so that the sums over all blocks stay exact; a
// permutation that depends on (seed, block) only says which of the positions are whose. So the
// source of a position, and how many samples of each source lie before it, are functions of the
// seed and the position: nothing is counted along the way.
//
// A source's own samples are taken in its own epochs: its n-th sample is at place n % size of its
// epoch n / size, whose order is the file's or a permutation of its own.
//
// Pure. Thread-safe: immutable.
#ifndef WORKER_TRAINER_CORE_MIXTURE_H_
#define WORKER_TRAINER_CORE_MIXTURE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

class Mixture {
 public:
  struct Source {
    int64_t samples = 1;  // Of an epoch.
    double weight = 1;    // Its share is this divided by the sum of all.

    bool operator==(const Source& other) const {
      return samples == other.samples && weight == other.weight;
    }
  };
  // A sample of a source.
  struct Taken {
    int source = 0;
    int64_t number = 0;  // From 0, over all of the source's epochs.

    bool operator==(const Taken& other) const {
      return source == other.source && number == other.number;
    }
  };

  static constexpr int64_t kBlock = 64;
  static constexpr int kMostSources = 256;
  // The least share, of which all others are multiples.
  static constexpr int64_t kShares = int64_t{1} << 20;

  // Requires: 1 to kMostSources sources; each has a sample, and a weight that is finite and above
  // 0. A share below 1 / kShares counts as that.
  explicit Mixture(const std::vector<Source>& sources);

  bool operator==(const Mixture& other) const { return sources_ == other.sources_; }

  const std::vector<Source>& sources() const { return sources_; }
  // Of all sources together.
  int64_t samples() const { return firsts_.back(); }

  // What the positions block * kBlock, block * kBlock + 1, ... take.
  std::array<Taken, kBlock> Block(int64_t block, uint64_t seed) const;
  // How many samples of each source lie before the position.
  std::vector<int64_t> TakenBefore(int64_t position, uint64_t seed) const;

  // The place in the data of a sample that is taken, where the sources lie one behind the other.
  int64_t IndexOf(const Taken& taken, bool shuffle, uint64_t seed) const;
  // The source that has the sample at this place in the data, and the first place of a source.
  int SourceOf(int64_t index) const;
  int64_t FirstOf(int source) const { return firsts_[static_cast<size_t>(source)]; }

  // Of the permutations of a source's epochs.
  static uint64_t SeedOf(int source, uint64_t seed);

 private:
  // Of the first `count` positions that the sources before this one leave over, those of this one.
  int64_t Quota(size_t source, int64_t count) const;
  // Of all positions below this one, each source's, before the blocks are permuted.
  std::vector<int64_t> Quotas(int64_t position) const;
  // The source that has a position before the blocks are permuted.
  int SourceAt(int64_t position) const;

  std::vector<Source> sources_;
  std::vector<int64_t> shares_;  // Of each source,
  std::vector<int64_t> rests_;   // and of it and all behind it.
  std::vector<int64_t> firsts_;  // The first place of each source in the data, and their end.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_MIXTURE_H_
