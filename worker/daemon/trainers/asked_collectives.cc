#include "worker/daemon/trainers/asked_collectives.h"

#include <google/protobuf/util/json_util.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "common/foreign_dir.h"
#include "worker/daemon/logs/log_files.h"
#include "worker/shim/trainer_dir.h"

namespace paceline {
namespace {

// Limit on an answer, which goes into a node report; _collectives.py never writes so much.
constexpr size_t kMostReported = 32 << 10;

void MakeUtf8(std::string* text) { *text = ToUtf8(std::move(*text)); }

}  // namespace

absl::StatusOr<v1::RankCollectives> ParseCollectives(absl::string_view json) {
  v1::RankCollectives reported;
  const auto parsed =
      google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, &reported);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("it is not what is expected: ", parsed.message().ToString()));
  }
  if (reported.ByteSizeLong() > kMostReported) {
    return absl::ResourceExhaustedError(
        absl::StrCat("it tells more than ", kMostReported, " bytes of collectives"));
  }
  MakeUtf8(reported.mutable_unavailable());
  for (v1::GroupCollectives& group : *reported.mutable_groups()) {
    MakeUtf8(group.mutable_name());
    MakeUtf8(group.mutable_description());
    for (v1::Collective& collective : *group.mutable_collectives()) {
      MakeUtf8(collective.mutable_operation());
      MakeUtf8(collective.mutable_input());
    }
  }
  return reported;
}

bool AskedCollectives::Poll(int64_t wanted, int rank, absl::Time now) {
  if (wanted == 0) {
    waits_ = false;
    wanted_ = 0;
    return std::exchange(reported_, std::nullopt).has_value();
  }
  if (wanted != wanted_) {
    wanted_ = wanted;
    waits_ = true;
    asked_ = false;
    deadline_ = now + kPatience;
  }
  if (!waits_) return false;
  if (!asked_ && !Ask()) {
    if (now >= deadline_) Refuse("no process of the rank waits to be asked");
    return !waits_;
  }
  if (!waits_) return true;
  absl::StatusOr<v1::RankCollectives> answer = ReadAnswer(rank);
  if (answer.ok() && answer->wanted() == wanted) {
    reported_ = *std::move(answer);
    waits_ = false;
  } else if (!answer.ok() && !absl::IsNotFound(answer.status())) {
    Refuse(answer.status().message());
  } else if (now >= deadline_) {
    Refuse(absl::StrCat("its Python has not answered within ", absl::FormatDuration(kPatience)));
  }
  return !waits_;
}

bool AskedCollectives::Ask() {
  const absl::StatusOr<ForeignDir> dir = ForeignDir::Open(own_dir_);
  const absl::Status status =
      dir.ok() ? dir->WriteToPipe(trainer_dir::kCollectivesAsk, absl::StrCat(wanted_, "\n"))
               : dir.status();
  asked_ = status.ok();
  if (asked_ || absl::IsUnavailable(status)) return asked_;
  if (absl::IsNotFound(status)) {  // It has no process group.
    Refuse("");
  } else {
    Refuse(status.message());
  }
  return true;
}

absl::StatusOr<v1::RankCollectives> AskedCollectives::ReadAnswer(int rank) const {
  PACELINE_ASSIGN_OR_RETURN(const ForeignDir dir, ForeignDir::Open(own_dir_));
  PACELINE_ASSIGN_OR_RETURN(const ForeignFile file, dir.OpenFile(trainer_dir::kCollectives));
  PACELINE_ASSIGN_OR_RETURN(const std::string text, file.ReadAll(kMostBytes));
  absl::StatusOr<v1::RankCollectives> reported = ParseCollectives(text);
  if (!reported.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", file.path(), ": ", reported.status().message()));
  }
  if (reported->unavailable().empty() && reported->rank() != rank) {
    reported->clear_groups();
    reported->set_unavailable(
        absl::StrCat("torch numbers a process of it rank ", reported->rank(), ", not ", rank));
  }
  return reported;
}

void AskedCollectives::TakeLeft(int rank) {
  absl::StatusOr<v1::RankCollectives> left = ReadAnswer(rank);
  // Skip an answer from an earlier time when the rank stood still.
  if (left.ok() && (left->wanted() == 0 || left->wanted() == wanted_)) reported_ = *std::move(left);
  waits_ = false;
}

void AskedCollectives::Refuse(absl::string_view why) {
  reported_.emplace();
  reported_->set_wanted(wanted_);
  reported_->set_unavailable(ToUtf8(std::string(why)));
  waits_ = false;
}

}  // namespace paceline
