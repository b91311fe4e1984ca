// The reports that members of a generation exchange when they meet, and what others get as a
// consequence.
//
// Thread-compatible. A failed collective is a CollectiveError.
#ifndef WORKER_TRAINER_GENERATION_RENDEZVOUS_ROWS_H_
#define WORKER_TRAINER_GENERATION_RENDEZVOUS_ROWS_H_

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "common/checkpoint/checksum.h"
#include "common/core/lanes.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/core/rendezvous.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/core/save_count.h"
#include "worker/trainer/core/stream_rendezvous.h"
#include "worker/trainer/generation/rendezvous.h"
#include "worker/trainer/loop/training_state.h"

namespace paceline {

// Levels of a ladder. Group sizes at least double from one level to the next.
constexpr size_t kMaxLevels = 16;

// A rank's report about itself. Sent as bytes: all ranks run the same program.
struct RendezvousRow {
  RankPosition position;
  uint64_t layout = 0;  // In this generation.
  uint64_t model = 0;   // HashOfModel
  uint64_t names = 0;   // HashOfNames
  DataPosition data;
  DataPosition open_data;
  double grad_norm = 0;  // Of the unfinished step.
  double word_norm = 0;  // TrainingState::word_norm
  int64_t mean_step = -1;
  int64_t mean_bytes = 0;
  int mean_outer = -1;  // StrategyMemory::mean_outer
  bool all_equal = true;
  RankRange equal;
  int levels = 0;  // Length of StrategyMemory::levels; of the arrays, so many count.
  std::array<int64_t, kMaxLevels> references{};  // Numbers of the references, by level; 0: none.
  std::array<bool, kMaxLevels> momenta{};        // Whether it has that of an outer step, by level.
  StreamPosition stream;                         // Of the last level.
  int64_t stream_values = 0;                     // In StreamMemory::sent; 0: it is undefined.
  bool has_order = false;
  SaveCount saves;
  int64_t last_order = 0;
};

// A hash of the names, types and shapes of model and optimizer, and of what is attached.
uint64_t HashOfModel(const ModelTensors& model, const Optimizer& optimizer,
                     const Attachments* attachments);

// A hash of the parameters' names: with shards, ranks may have other shapes.
uint64_t HashOfNames(const ModelTensors& model);

// InvalidArgument unless all hashes are equal; with shards, those of each position.
absl::Status CheckModels(const std::vector<uint64_t>& hashes, int shards = 1);

// This rank's row.
RendezvousRow RowOf(const Rendezvous& rendezvous, const TrainingState& state);

// Gathers each member's row, by rank. Collective. Row must be trivially copyable. Rows carry
// checksums, because a collective that a member has aborted may look finished on a device.
template <typename Row>
std::vector<Row> GatherByRank(Group& all, at::Device device, const Row& own) {
  static_assert(std::is_trivially_copyable_v<Row>);
  constexpr size_t kSum = sizeof(uint64_t);
  constexpr size_t kBytes = sizeof(Row) + kSum;
  const auto checksum_of = [](const char* row) { return ChecksumOf({row, sizeof(Row)}); };
  at::Tensor input = at::empty({static_cast<int64_t>(kBytes)}, at::kByte);
  char* const sent = static_cast<char*>(input.mutable_data_ptr());
  std::memcpy(sent, &own, sizeof(Row));
  const uint64_t own_checksum = checksum_of(sent);
  std::memcpy(sent + sizeof(Row), &own_checksum, kSum);
  input = input.to(device);
  at::Tensor output = at::empty({all.size() * input.numel()}, input.options());
  all.Gather(output, input);
  output = output.cpu();
  std::vector<Row> rows(static_cast<size_t>(all.size()));
  const char* reported = static_cast<const char*>(output.const_data_ptr());
  for (Row& row : rows) {
    uint64_t checksum = 0;
    std::memcpy(&checksum, reported + sizeof(Row), kSum);
    if (checksum != checksum_of(reported)) {
      throw CollectiveError("rendezvous of the ranks", "what one tells has changed on its way");
    }
    std::memcpy(&row, reported, sizeof(Row));
    reported += kBytes;
  }
  return rows;
}

// The rows by rank. Collective.
std::vector<RendezvousRow> GatherRows(const Rendezvous& rendezvous, const TrainingState& state);

// Whether a rank that takes another one's mean gets parameters with it: those of the exchange, or
// later ones. (The exchange may have been one of figures only.)
bool HasMean(const RendezvousRow& from, const RankPosition& to);

// Changes the rows to the state after the transfers: a source sends what it has then. Positions
// stay as reported.
void Foresee(const RendezvousDecision& decision, std::vector<RendezvousRow>* rows);

// Whether the members of each group with quantised means or outer steps refer to the same vector
// (comm/level_states.h). `rows`: as changed by Foresee. With shards, the plan's groups are of
// replicas, and each lane has one.
bool ReferencesAgree(const std::vector<RendezvousRow>& rows, const RendezvousDecision& decision,
                     const TrainingPlan& plan, const Lanes& lanes);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_RENDEZVOUS_ROWS_H_
