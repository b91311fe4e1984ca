#include "worker/trainer/meeting.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checksum.h"
#include "common/log.h"
#include "worker/trainer/comm/training_plan.h"
#include "worker/trainer/state_transfer.h"

namespace paceline {
namespace {

// What a rank tells of itself, as numbers.
enum Column {
  kGeneration,
  kStep,
  kComputed,
  kExchanged,
  kFinalMean,
  kRank,
  kGradientsFirst,
  kGradientsSize,
  kExchangeFirst,
  kExchangeSize,
  kLayout,
  kEvaluated,
  kAloneBelow,
  kLayoutNow,
  kModel,
  kEpoch,
  kOffset,
  kOpenEpoch,
  kOpenOffset,
  kGradNorm,
  kMeanBytes,
  kAllEqual,
  kHasOrder,
  kLevels,
  kSaveDue,
  kLastOrder,
  kColumns
};
using Row = std::array<int64_t, kColumns>;

int64_t HashOf(const std::string& text) { return static_cast<int64_t>(ChecksumOf(text)); }

int64_t HashOfModel(const Model& model, const Optimizer& optimizer) {
  std::string text;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    absl::StrAppend(&text, name, static_cast<int>(tensor.scalar_type()));
    for (const int64_t size : tensor.sizes()) absl::StrAppend(&text, " ", size);
  };
  for (const NamedTensor& one : model.parameters()) add(one.name, one.tensor);
  for (const NamedTensor& one : model.buffers()) add(one.name, one.tensor);
  for (const OptimizerSlot& slot : optimizer.Slots()) absl::StrAppend(&text, slot.name);
  return HashOf(text);
}

int64_t BitsOf(double value) {
  int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

double FromBits(int64_t bits) {
  double value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

Row RowOf(const Meeting& meeting, const TrainingState& state) {
  const RankPosition& position = state.position;
  const bool has_norm = state.is_open && state.open_result.grad_norm.defined();
  Row row{};
  row[kGeneration] = position.generation;
  row[kStep] = position.step;
  row[kComputed] = position.computed ? 1 : 0;
  row[kExchanged] = position.exchanged ? 1 : 0;
  row[kFinalMean] = position.final_mean ? 1 : 0;
  row[kRank] = position.rank;
  row[kGradientsFirst] = position.gradients.first;
  row[kGradientsSize] = position.gradients.size;
  row[kExchangeFirst] = position.exchange.first;
  row[kExchangeSize] = position.exchange.size;
  row[kLayout] = static_cast<int64_t>(position.layout);
  row[kEvaluated] = position.evaluated;
  row[kAloneBelow] = position.alone_below;
  row[kLayoutNow] = static_cast<int64_t>(LayoutOf(meeting.config.member, meeting.plan));
  row[kModel] = HashOfModel(meeting.model, meeting.optimizer);
  row[kEpoch] = state.data.epoch;
  row[kOffset] = state.data.offset;
  row[kOpenEpoch] = state.open_data.epoch;
  row[kOpenOffset] = state.open_data.offset;
  row[kAllEqual] = state.memory.all_equal ? 1 : 0;
  row[kGradNorm] = BitsOf(has_norm ? state.open_result.grad_norm.item<double>() : 0);
  row[kMeanBytes] =
      state.memory.mean.defined() ? static_cast<int64_t>(state.memory.mean.nbytes()) : 0;
  row[kHasOrder] = state.memory.gradient_order.empty() ? 0 : 1;
  for (size_t i = 0; i < state.memory.levels.size(); ++i) {
    if (state.memory.levels[i].reference.defined()) row[kLevels] |= int64_t{1} << i;
  }
  row[kSaveDue] = state.saver.due ? 1 : 0;
  row[kLastOrder] = state.saver.last_order;
  return row;
}

RankPosition PositionOf(const Row& row) {
  RankPosition position;
  position.generation = row[kGeneration];
  position.step = row[kStep];
  position.computed = row[kComputed] != 0;
  position.exchanged = row[kExchanged] != 0;
  position.final_mean = row[kFinalMean] != 0;
  position.rank = static_cast<int>(row[kRank]);
  position.gradients = {static_cast<int>(row[kGradientsFirst]),
                        static_cast<int>(row[kGradientsSize])};
  position.exchange = {static_cast<int>(row[kExchangeFirst]), static_cast<int>(row[kExchangeSize])};
  position.layout = static_cast<uint64_t>(row[kLayout]);
  position.evaluated = row[kEvaluated];
  position.alone_below = row[kAloneBelow];
  return position;
}

std::vector<Row> Gather(Group& all, const Row& own, at::Device device) {
  at::Tensor input = at::empty({kColumns}, at::kLong);
  std::copy(own.begin(), own.end(), input.mutable_data_ptr<int64_t>());
  input = input.to(device);
  at::Tensor output = at::empty({all.size() * kColumns}, input.options());
  all.Gather(output, input);
  output = output.cpu();
  std::vector<Row> rows(static_cast<size_t>(all.size()));
  const int64_t* next = output.const_data_ptr<int64_t>();
  for (Row& row : rows) {
    std::copy_n(next, kColumns, row.begin());
    next += kColumns;
  }
  return rows;
}

std::vector<at::Tensor> StepTensors(const Meeting& meeting) {
  std::vector<at::Tensor> tensors = TensorsOf(meeting.model.parameters());
  for (const at::Tensor& tensor : TensorsOf(meeting.optimizer.Slots())) tensors.push_back(tensor);
  for (const at::Tensor& tensor : meeting.optimizer.StepCounts()) tensors.push_back(tensor);
  return tensors;
}

// The exchanges of one meeting, with the state that they change.
class Transfers {
 public:
  // `equal`: the ranks that each one becomes equal to, if it takes a mean.
  Transfers(const Meeting& meeting, const std::vector<Row>& rows,
            const std::vector<RankRange>& equal, TrainingState& state)
      : meeting_(meeting), rows_(rows), equal_(equal), state_(state) {}

  void Make(const Transfer& transfer) {
    const int me = meeting_.config.rank();
    if (transfer.from != me && transfer.to != me) return;
    const bool receives = transfer.to == me;
    const int peer = receives ? transfer.from : transfer.to;
    switch (transfer.what) {
      case Transfer::What::kAll:
        return receives ? ReceiveAll(peer) : SendAll(peer);
      case Transfer::What::kStep:
        return receives ? ReceiveStep(peer) : Send(StepTensors(meeting_), peer);
      case Transfer::What::kMean:
        return receives ? ReceiveMean(peer) : SendMean(peer);
    }
  }

 private:
  const Row& RowAt(int rank) const { return rows_[static_cast<size_t>(rank)]; }
  at::Device device() const { return meeting_.model.device(); }
  void Send(const std::vector<at::Tensor>& tensors, int to) const {
    SendTensors(meeting_.groups.all(), tensors, device(), to);
  }
  void Receive(const std::vector<at::Tensor>& tensors, int from, bool in_place) const {
    ReceiveTensors(meeting_.groups.all(), tensors, device(), from, in_place);
  }

  void SendAll(int to) const {
    std::vector<at::Tensor> tensors = StepTensors(meeting_);
    const RandomNumbers random(device());
    for (const at::Tensor& tensor : TensorsOf(meeting_.model.buffers())) tensors.push_back(tensor);
    for (const at::Tensor& tensor : random.tensors()) tensors.push_back(tensor);
    for (const StrategyMemory::Level& level : state_.memory.levels) {
      if (level.reference.defined()) tensors.push_back(level.reference);
    }
    Send(tensors, to);
  }

  void ReceiveAll(int from) {
    const Row& source = RowAt(from);
    std::vector<at::Tensor> tensors = StepTensors(meeting_);
    const RandomNumbers random(device());
    for (const at::Tensor& tensor : TensorsOf(meeting_.model.buffers())) tensors.push_back(tensor);
    for (const at::Tensor& tensor : random.tensors()) tensors.push_back(tensor);
    state_.memory = StrategyMemory();
    state_.memory.all_equal = source[kAllEqual] != 0;
    state_.memory.equal = equal_[static_cast<size_t>(from)];
    for (int64_t left = source[kLevels]; left != 0; left >>= 1) {
      StrategyMemory::Level& level = state_.memory.levels.emplace_back();
      if ((left & 1) == 0) continue;
      level.reference = at::empty({CountParameters()}, at::TensorOptions().device(device()));
      tensors.push_back(level.reference);
    }
    state_.position = RankPosition();  // Without a state, until all have theirs.
    state_.is_open = state_.in_step = false;
    Receive(tensors, from, /*in_place=*/true);
    random.Restore();
    state_.data = {source[kEpoch], source[kOffset]};
    state_.saver.due = source[kSaveDue] != 0;
  }

  // The own result of the step stands, but for the norm of the gradients, which is that of all.
  void ReceiveStep(int from) {
    Receive(StepTensors(meeting_), from, /*in_place=*/false);
    for (const NamedTensor& parameter : meeting_.model.parameters()) {
      parameter.tensor.mutable_grad() = at::Tensor();
    }
    state_.data = state_.open_data;
    state_.in_step = false;
    state_.open_result.grad_norm =
        at::tensor({FromBits(RowAt(from)[kGradNorm])}, at::kFloat).squeeze().to(device());
  }

  void SendMean(int to) const {
    if (RowAt(meeting_.config.rank())[kMeanBytes] > 0) Send({state_.memory.mean}, to);
  }

  void ReceiveMean(int from) {
    const int64_t bytes = RowAt(from)[kMeanBytes];
    if (bytes == 0) return;  // Nothing but figures was exchanged.
    std::vector<at::Tensor> parts = TensorsOf(meeting_.model.parameters());
    int64_t values = CountParameters();
    if (meeting_.config.strategy.average_optimizer_state) {
      for (const at::Tensor& tensor : TensorsOf(meeting_.optimizer.Slots())) {
        parts.push_back(tensor);
        values += tensor.numel();
      }
    }
    const auto type = bytes == values * 4 ? at::kFloat : at::kDouble;
    at::Tensor mean = at::empty({values}, at::TensorOptions().dtype(type).device(device()));
    Receive({mean}, from, /*in_place=*/false);
    int64_t offset = 0;
    for (const at::Tensor& part : parts) {
      part.detach().copy_(mean.narrow(0, offset, part.numel()).view(part.sizes()));
      offset += part.numel();
    }
    // What this rank sent has arrived.
    for (StrategyMemory::Level& level : state_.memory.levels) level.before.reset();
    state_.memory.equal = equal_[static_cast<size_t>(meeting_.config.rank())];
  }

  int64_t CountParameters() const {
    int64_t values = 0;
    for (const NamedTensor& one : meeting_.model.parameters()) values += one.tensor.numel();
    return values;
  }

  const Meeting& meeting_;
  const std::vector<Row>& rows_;
  const std::vector<RankRange>& equal_;
  TrainingState& state_;
};

// All take the order of the first rank that knows it, so that all lay out their buckets alike. The
// sum ends the meeting: who gets it knows that all have what they need.
void ShareOrder(const Meeting& meeting, const std::vector<Row>& rows, bool counts,
                std::vector<int64_t>* order) {
  const auto parameters = static_cast<int64_t>(meeting.model.parameters().size());
  const auto first =
      std::find_if(rows.begin(), rows.end(), [](const Row& row) { return row[kHasOrder] != 0; });
  at::Tensor shared = at::zeros({parameters}, at::kLong);
  int64_t* const values = shared.mutable_data_ptr<int64_t>();
  if (first - rows.begin() == meeting.config.rank()) {
    std::copy(order->begin(), order->end(), values);
  }
  at::Tensor summed = shared.to(meeting.model.device());
  meeting.groups.all().Sum(summed);
  shared = summed.cpu();
  order->clear();
  if (!counts || first == rows.end()) return;
  order->assign(shared.const_data_ptr<int64_t>(), shared.const_data_ptr<int64_t>() + parameters);
}

int64_t LastOrderOfAll(const std::vector<Row>& rows) {
  int64_t last = std::numeric_limits<int64_t>::max();
  for (const Row& row : rows) {
    if (row[kGeneration] > 0) last = std::min(last, row[kLastOrder]);
  }
  return last == std::numeric_limits<int64_t>::max() ? 0 : last;
}

// By rank; empty where no mean is taken.
std::vector<RankRange> EqualRanks(const std::vector<RankPosition>& told,
                                  const MeetingDecision& decision) {
  std::vector<RankRange> equal(told.size());
  for (const Transfer& transfer : decision.transfers) {
    if (transfer.what != Transfer::What::kMean) continue;
    const auto rank = static_cast<size_t>(transfer.to);
    const RankPosition& after = decision.positions[rank];
    const bool final = after.final_mean && !told[rank].final_mean;
    equal[rank] = final ? RankRange{0, static_cast<int>(told.size())} : after.exchange;
  }
  return equal;
}

}  // namespace

uint64_t LayoutOf(const Member& member, const TrainingPlan& plan) {
  TrainingPlan timeless = plan;
  timeless.epoch = 1;
  return ChecksumOf(absl::StrCat(member.rank, "/", member.world_size, " ", EncodePlan(timeless)));
}

absl::StatusOr<bool> Meet(const Meeting& meeting, TrainingState& state) {
  const at::NoGradGuard no_grad;
  std::vector<Row> rows =
      Gather(meeting.groups.all(), RowOf(meeting, state), meeting.model.device());
  std::vector<RankPosition> told;
  std::vector<uint64_t> layouts;
  for (const Row& row : rows) {
    if (row[kModel] != rows.front()[kModel]) {
      return absl::InvalidArgumentError(
          absl::StrCat("the model of rank ", &row - rows.data(),
                       " is not that of rank 0: files "
                       "that the job names differ between the nodes"));
    }
    told.push_back(PositionOf(row));
    layouts.push_back(static_cast<uint64_t>(row[kLayoutNow]));
  }
  std::vector<std::vector<int>> groups;
  for (const PlanLevel& level : meeting.plan.levels) groups.push_back(level.groups);
  if (!groups.empty() && !meeting.plan.gradient_groups.empty()) {
    groups.push_back(meeting.plan.gradient_groups);
  }
  const MeetingDecision decision = DecideMeeting(told, layouts, groups);
  if (decision.begins) return true;

  const auto me = static_cast<size_t>(meeting.config.rank());
  const RankPosition& after = decision.positions[me];
  const bool takes_step =
      std::any_of(decision.transfers.begin(), decision.transfers.end(), [&](const Transfer& one) {
        return one.what == Transfer::What::kStep && one.to == meeting.config.rank();
      });
  if (state.in_step && !takes_step) {
    meeting.undo->Undo();
    state.in_step = state.is_open = state.position.computed = false;
  }
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    // Others get what it has after it took the step.
    if (!told[rank].computed || decision.positions[rank].step == told[rank].step) continue;
    rows[rank][kEpoch] = rows[rank][kOpenEpoch];
    rows[rank][kOffset] = rows[rank][kOpenOffset];
  }
  const std::vector<RankRange> equal = EqualRanks(told, decision);
  Transfers transfers(meeting, rows, equal, state);
  for (const Transfer& transfer : decision.transfers) transfers.Make(transfer);
  state.regrouped = !decision.same_groups;
  if (state.regrouped) {
    state.memory.levels.clear();
    state.memory.equal = {};
  }
  if (told[me].alone_below <= after.step) state.alone_as = state.member;
  const bool has_state = state.position.step >= 0;
  if (has_state) state.position = after;
  const bool steps_done = std::any_of(decision.positions.begin(), decision.positions.end(),
                                      [](const RankPosition& one) { return one.step > 0; });
  ShareOrder(meeting, rows, steps_done, &state.memory.gradient_order);
  if (!has_state) state.alone_as = meeting.config.member;
  // What was not begun on all ranks is begun again, and so is the save at the end.
  state.saver.last_order = LastOrderOfAll(rows);
  state.saver.last_saved = -1;
  state.position = after;
  return false;
}

}  // namespace paceline
