#include "worker/trainer/core/sample_run.h"

#include <array>
#include <cstring>

#include "common/checkpoint/checksum.h"

namespace paceline {
namespace {

constexpr uint64_t kFormat = 0x31304e5552534c50;  // "PLSRUN01"
constexpr size_t kWords = kRunBytes / sizeof(uint64_t);

// A record's words: the checksum of the others, then these in their order.
using Words = std::array<uint64_t, kWords>;

uint64_t Two(int32_t low, int32_t high) {
  return static_cast<uint64_t>(static_cast<uint32_t>(low)) |
         static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32u;
}
int32_t Low(uint64_t word) { return static_cast<int32_t>(static_cast<uint32_t>(word)); }
int32_t High(uint64_t word) { return static_cast<int32_t>(static_cast<uint32_t>(word >> 32u)); }
uint64_t Bits(int64_t value) { return static_cast<uint64_t>(value); }
int64_t Value(uint64_t word) { return static_cast<int64_t>(word); }

uint64_t ChecksumOfWords(const Words& words) {
  std::array<char, kRunBytes> bytes{};
  std::memcpy(bytes.data(), words.data(), kRunBytes);
  return ChecksumOf(absl::string_view(bytes.data(), kRunBytes).substr(sizeof(uint64_t)));
}

bool IsPosition(const DataPosition& position, int64_t samples) {
  return position.epoch >= 0 && position.offset >= 0 &&
         (samples == 0 || position.offset <= samples);
}

bool IsSound(const SampleRun& run) {
  const int64_t together = int64_t{run.batch} * run.world_size;
  return run.generation >= 0 && run.parent >= 0 && run.since >= 0 && run.world_size >= 1 &&
         run.batch >= 1 && run.passes >= 1 && run.rank >= 0 && run.rank < run.world_size &&
         run.with_first >= 0 && run.with_size >= 1 &&
         run.with_first <= run.world_size - run.with_size && run.first_step >= 0 &&
         run.steps >= 0 && (run.samples == 0 || run.samples >= together) &&
         IsPosition(run.begin, run.samples) && IsPosition(run.end, run.samples);
}

}  // namespace

Sampler::Options SamplingOf(const SampleRun& run, int rank) {
  Sampler::Options options;
  options.samples = run.samples;
  options.rank = rank;
  options.world_size = run.world_size;
  options.batch = run.batch;
  options.shuffle = run.shuffle;
  options.seed = run.seed;
  return options;
}

DataPosition PositionAfterStep(const SampleRun& run) {
  Sampler sampler(SamplingOf(run, run.rank), run.begin);
  for (int32_t pass = 0; pass < run.passes; ++pass) sampler.Skip();
  return sampler.position();
}

bool Extend(SampleRun* run, const SampleRun& next) {
  const bool same = run->generation == next.generation && run->parent == next.parent &&
                    run->since == next.since && run->rank == next.rank &&
                    run->world_size == next.world_size && run->batch == next.batch &&
                    run->passes == next.passes && run->with_first == next.with_first &&
                    run->with_size == next.with_size && run->samples == next.samples &&
                    run->seed == next.seed && run->shuffle == next.shuffle;
  if (!same || next.first_step != run->first_step + run->steps || !(next.begin == run->end)) {
    return false;
  }
  run->steps += next.steps;
  run->end = next.end;
  return true;
}

std::string EncodeRun(const SampleRun& run) {
  Words words = {0,
                 kFormat,
                 Bits(run.generation),
                 Bits(run.since),
                 Two(run.rank, run.world_size),
                 Two(run.batch, run.passes),
                 Two(run.with_first, run.with_size),
                 Bits(run.first_step),
                 Bits(run.steps),
                 Bits(run.begin.epoch),
                 Bits(run.begin.offset),
                 Bits(run.end.epoch),
                 Bits(run.end.offset),
                 Bits(run.samples),
                 run.seed,
                 (Bits(run.parent) << 1u) | (run.shuffle ? 1u : 0u)};
  words[0] = ChecksumOfWords(words);
  std::string record(kRunBytes, '\0');
  std::memcpy(&record[0], words.data(), kRunBytes);
  return record;
}

std::optional<SampleRun> DecodeRun(absl::string_view record) {
  if (record.size() != kRunBytes) return std::nullopt;
  Words words{};
  std::memcpy(words.data(), record.data(), kRunBytes);
  if (words[0] != ChecksumOfWords(words) || words[1] != kFormat) return std::nullopt;
  SampleRun run;
  run.generation = Value(words[2]);
  run.since = Value(words[3]);
  run.rank = Low(words[4]);
  run.world_size = High(words[4]);
  run.batch = Low(words[5]);
  run.passes = High(words[5]);
  run.with_first = Low(words[6]);
  run.with_size = High(words[6]);
  run.first_step = Value(words[7]);
  run.steps = Value(words[8]);
  run.begin = {Value(words[9]), Value(words[10])};
  run.end = {Value(words[11]), Value(words[12])};
  run.samples = Value(words[13]);
  run.seed = words[14];
  run.shuffle = (words[15] & 1u) != 0;
  run.parent = Value(words[15] >> 1u);
  if (!IsSound(run)) return std::nullopt;
  return run;
}

}  // namespace paceline
