#include "controller/api/services/log_stream.h"

#include "absl/strings/str_cat.h"
#include "controller/core/recovery/membership.h"
#include "controller/wire/convert.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

constexpr int64_t kMaxLogOffset = int64_t{1} << 60;  // Larger than any disk.

// Its node has reported it, so that the node can be asked for its log.
bool IsThere(const RankState& trainer) { return trainer.report.pid != 0 || HasEnded(trainer); }

grpc::Status NotHeardOf(const NodeName& node) {
  return MakeError(grpc::StatusCode::UNAVAILABLE, "NODE_UNREACHABLE",
                   absl::StrCat("node ", node.value(), " is not heard of"));
}

// Null: the job does not know the trainer, or no longer.
const RankState* TrainerOf(const Job& job, const TrainerId& id) {
  for (const RankState* trainer : TrainersOf(job)) {
    if (trainer->report.id == id) return trainer;
  }
  return nullptr;
}

}  // namespace

void JobService::LogStream::Begin(const Job& job, const v1::StreamLogsRequest& wanted) {
  set_->insert(this);
  job_ = job.request.id;
  follow_ = wanted.follow();
  goes_on_ = wanted.follow() && wanted.follow_rank();
  may_switch_ = wanted.has_trainer() || wanted.follow_rank();
  reader_ = {Rank(wanted.rank()), {}, wanted.rank()};
  const RankState* trainer = nullptr;
  if (wanted.has_trainer()) {
    reader_.trainer = FromProto(wanted.trainer());
    reader_.trainer.job = job_;
    node_ = NodeName(wanted.node());
    trainer = TrainerOf(job, reader_.trainer);
  } else if (!job.ranks.empty()) {
    trainer = &job.ranks[static_cast<size_t>(wanted.rank())];
    reader_.trainer = trainer->report.id;
  }
  if (trainer != nullptr) {
    node_ = trainer->slot.node;
    if (RankOf(job, *trainer) != Rank(-1)) reader_.seat = trainer->seat;
  }
  *request_.mutable_trainer() = ToProto(reader_.trainer);
  request_.set_offset(wanted.offset());
  request_.set_tail_lines(wanted.tail_lines());
  request_.set_since_s(wanted.since_s());
  if (reader_.trainer.generation == Generation(0)) {
    over_ = true;  // There is no trainer yet, so nothing comes from one.
    return GoOn();
  }
  Ask();
}

const Job* JobService::LogStream::FindJob() const {
  const auto found = control_->cluster().jobs().find(job_);
  return found == control_->cluster().jobs().end() ? nullptr : &found->second;
}

const RankState* JobService::LogStream::Writer() const {
  const Job* job = FindJob();
  return job == nullptr ? nullptr : WriterFor(*job, reader_);
}

bool JobService::LogStream::MayWrite() const {
  const Job* job = FindJob();
  return job != nullptr && paceline::MayWrite(*job, reader_);
}

bool JobService::LogStream::IsHeardOf() const {
  const auto node = control_->cluster().nodes().find(node_);
  return node == control_->cluster().nodes().end() || node->second.contact == Contact::kReachable;
}

void JobService::LogStream::Wake() {
  if (!has_room()) return;
  if (waits_) return GoOn();
  if (asked_ != nullptr && !IsHeardOf()) {
    Cancel();
    return GiveUp(NotHeardOf(node_));
  }
  if (asked_ == nullptr || !goes_on_ || !request_.follow() || MayWrite()) return;
  // The stream waits for more from a trainer that writes nothing more.
  Cancel();
  Ask();
}

void JobService::LogStream::Read(const RankState& trainer) {
  reader_.trainer = trainer.report.id;
  reader_.seat = trainer.seat;
  node_ = trainer.slot.node;
  request_.Clear();
  *request_.mutable_trainer() = ToProto(reader_.trainer);
  over_ = false;
  outcome_ = grpc::Status::OK;
  Ask();
}

void JobService::LogStream::Ask() {
  waits_ = false;
  if (!IsHeardOf()) return GiveUp(NotHeardOf(node_));
  // A stream that ends with its trainer waits for the trainer's end.
  request_.set_follow(follow_ && (!goes_on_ || MayWrite()));
  asked_ = std::make_shared<int64_t>(0);
  const grpc::Status status = workers_->RequestLog(
      node_, caller(), request_,
      [this, asked = std::weak_ptr<int64_t>(asked_)](const grpc::Status& status,
                                                     const v1::LogData& data) {
        if (asked.expired()) return;  // It was cancelled, in a session that was over already.
        asked_.reset();
        status.ok() ? Take(data) : GiveUp(status);
      },
      asked_.get());
  if (status.ok()) return;
  asked_.reset();
  GiveUp(status);
}

void JobService::LogStream::Cancel() {
  if (asked_ == nullptr) return;
  workers_->CancelLog(node_, *asked_);
  asked_.reset();
}

void JobService::LogStream::Take(const v1::LogData& data) {
  if (!has_room()) return;  // The reader has gone.
  if (!data.error().empty()) {
    return GiveUp(MakeError(grpc::StatusCode::NOT_FOUND, "LOG_NOT_FOUND", data.error()));
  }
  // The next part is asked for from the end of this one.
  if (data.offset() < 0 || data.offset() > kMaxLogOffset) {
    return GiveUp(MakeError(grpc::StatusCode::DATA_LOSS, "LOG_DAMAGED",
                            absl::StrCat("node ", node_.value(), " tells of log at offset ",
                                         data.offset(), ", where there can be none")));
  }
  end_ = data.end();
  // From here on the log is read by offset.
  request_.clear_tail_lines();
  request_.clear_since_s();
  request_.set_offset(data.offset() + static_cast<int64_t>(data.data().size()));
  if (data.data().empty()) return Next();
  v1::LogChunk chunk;
  chunk.set_offset(data.offset());
  chunk.set_data(data.data());
  *chunk.mutable_trainer() = request_.trainer();
  chunk.set_node(node_.value());
  Send(std::move(chunk));
}

void JobService::LogStream::Next() {
  if (!end_) return Ask();
  over_ = request_.follow();
  if (!goes_on_) return Close(grpc::Status::OK);
  GoOn();
}

void JobService::LogStream::GoOn() {
  // The trainer stood by, or was about to be given up, and has its rank again.
  if (!over_ && MayWrite()) return Ask();
  const RankState* writer = Writer();
  const bool is_new = writer != nullptr && !(writer->report.id == reader_.trainer);
  if (is_new && IsThere(*writer)) return Read(*writer);
  const Job* job = FindJob();
  if (job == nullptr || job->ended_already()) return Close(outcome_);
  waits_ = true;
}

void JobService::LogStream::GiveUp(const grpc::Status& status) {
  const Job* job = FindJob();
  const RankState* writer = Writer();
  const bool replaced = writer != nullptr && !(writer->report.id == reader_.trainer);
  // The trainer could not start; another one will be tried.
  const bool never_was = status.error_code() == grpc::StatusCode::NOT_FOUND && goes_on_ &&
                         job != nullptr && !job->ended_already() &&
                         (writer == nullptr || HasEnded(*writer));
  if (!(may_switch_ && replaced) && !never_was) return Close(status);
  over_ = true;
  outcome_ = status;
  GoOn();
}

void JobService::LogStream::Gone() {
  Cancel();
  set_->erase(this);
}

}  // namespace paceline
