#include "controller/api/services/held_code.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/core/status_macros.h"
#include "common/job_spec/job_spec.h"
#include "common/log.h"
#include "common/uuid.h"
#include "controller/store/record.pb.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

constexpr char kRecords[] = "code/";
constexpr char kParts[] = "code-part/";
constexpr absl::Duration kLook = absl::Seconds(30);

std::string PartKey(const std::string& upload, size_t part) {
  return absl::StrFormat("%s%s/%04d", kParts, upload, part);
}

size_t PartsOf(int64_t bytes) {
  return (static_cast<size_t>(bytes) + kMaxCodePart - 1) / kMaxCodePart;
}

void Tell(const absl::Status& stored, const HeldCode::Answer& answer) {
  answer(stored.ok() ? grpc::Status::OK
                     : grpc::Status(grpc::StatusCode::UNAVAILABLE, std::string(stored.message())));
}

grpc::Status NotSent(const std::string& sha256) {
  return MakeError(
      grpc::StatusCode::FAILED_PRECONDITION, "CODE_NOT_FOUND",
      absl::StrCat("the controller does not have the code ", sha256,
                   " from you, or not any more: `paceline submit --ship` sends it with the job"));
}

}  // namespace

absl::StatusOr<HeldCode::Stored> HeldCode::Load(StateStore& store) {
  Stored stored;
  PACELINE_ASSIGN_OR_RETURN(const auto records, store.Load(kRecords));
  PACELINE_ASSIGN_OR_RETURN(auto parts, store.Load(kParts));
  for (const auto& [key, value] : records) {
    v1::CodeRecord record;
    const auto damaged = [&key = key] {
      return absl::DataLossError(absl::StrCat("state store: the record ", key, " is damaged"));
    };
    if (!record.ParseFromString(value)) return damaged();
    Files& files = stored.files[key.substr(sizeof(kRecords) - 1)];
    files.use.bytes = record.bytes();
    files.use.senders.insert(record.senders().begin(), record.senders().end());
    files.use.touched = EventLoop::Now();
    files.use.complete = true;
    files.upload = record.upload();
    for (size_t part = 0; static_cast<int64_t>(files.bytes.size()) < record.bytes(); ++part) {
      const auto found = parts.find(PartKey(files.upload, part));
      if (found == parts.end() || found->second.empty()) return damaged();
      files.bytes += found->second;
      parts.erase(found);
    }
  }
  for (const auto& [key, value] : parts) stored.strays.push_back(key);
  return stored;
}

HeldCode::HeldCode(EventLoop* loop, ControlLoop* control, Stored stored, CodeLimits limits)
    : loop_(loop), control_(control), limits_(limits), files_(std::move(stored.files)) {
  WriteBatch batch;
  batch.deletes = std::move(stored.strays);
  control_->Store(std::nullopt, std::move(batch), [](const absl::Status&) {});
  Forget();
}

std::vector<CodeUse> HeldCode::Uses() const {
  std::vector<CodeUse> uses;
  const std::set<std::string> used = UsedHashes();
  for (const auto& [hash, files] : files_) {
    uses.push_back(files.use);
    uses.back().used = used.count(hash) > 0;
  }
  for (const auto& [key, files] : uploads_) uses.push_back(files.use);
  return uses;
}

void HeldCode::Receive(const std::string& submitter, const v1::UploadCodeRequest& request,
                       v1::UploadCodeResponse* reply, const Answer& answer) {
  const v1::Code& code = request.code();
  if (CheckSent(submitter, code).ok()) {
    files_.at(code.sha256()).use.touched = EventLoop::Now();
    reply->set_received(code.bytes());
    return control_->WhenDurable([answer](const absl::Status& stored) { Tell(stored, answer); });
  }
  const Upload key(submitter, code.sha256());
  auto found = uploads_.find(key);
  if (found == uploads_.end()) {
    const CodeRoom room = MakeCodeRoom(Uses(), code.bytes(), submitter, EventLoop::Now(), limits_);
    if (room.refusal.has_value()) return answer(MakeError(*room.refusal));
    if (!room.forgotten.empty()) {
      const std::set<size_t> forgotten(room.forgotten.begin(), room.forgotten.end());
      WriteBatch batch;
      size_t index = 0;  // Index in Uses().
      for (auto files = files_.begin(); files != files_.end(); ++index) {
        files = forgotten.count(index) > 0 ? ForgetOne(files, batch) : std::next(files);
      }
      control_->Store(std::nullopt, std::move(batch), [](const absl::Status&) {});
    }
    found = uploads_.try_emplace(key).first;
    found->second.use.bytes = code.bytes();
    found->second.use.senders.insert(submitter);
    found->second.upload = NewUuid();
  }
  Files& files = found->second;
  files.use.touched = EventLoop::Now();
  const auto received = static_cast<int64_t>(files.bytes.size());
  if (received == files.use.bytes) {  // A repeat of the last part.
    return answer(grpc::Status(grpc::StatusCode::UNAVAILABLE, "it is being stored: ask again"));
  }
  reply->set_received(received);
  if (request.data().empty() || request.offset() != received) return answer(grpc::Status::OK);
  const int64_t expected =
      std::min<int64_t>(static_cast<int64_t>(kMaxCodePart), files.use.bytes - received);
  if (static_cast<int64_t>(request.data().size()) != expected || files.use.bytes != code.bytes()) {
    return answer(MakeError(
        grpc::StatusCode::INVALID_ARGUMENT, "CODE_INVALID",
        absl::StrCat("of ", files.use.bytes, " bytes of code the part at ", received, " has ",
                     expected, "; these are ", request.data().size(), " of ", code.bytes())));
  }
  files.bytes += request.data();
  files.sum.Add(request.data());
  reply->set_received(received + expected);
  if (received + expected < files.use.bytes) return answer(grpc::Status::OK);
  if (files.sum.Hex() != code.sha256()) {
    uploads_.erase(found);
    return answer(MakeError(grpc::StatusCode::INVALID_ARGUMENT, "CODE_INVALID",
                            absl::StrCat("the code is not what its hash ", code.sha256(),
                                         " says: it was changed on its way; send it again")));
  }
  StoreFrom(key, 0, answer);
}

// Stores each part in a transaction of its own, so that others can come in between.
void HeldCode::StoreFrom(const Upload& key, size_t part, const Answer& answer) {
  const Files& files = uploads_.at(key);
  const bool is_known = files_.count(key.second) > 0;
  const bool is_last = (part + 1) * kMaxCodePart >= files.bytes.size();
  WriteBatch batch;
  if (is_known) {
    Erase(files, part, batch);
  } else {
    batch.puts[PartKey(files.upload, part)] = files.bytes.substr(part * kMaxCodePart, kMaxCodePart);
  }
  if (is_known || is_last) {
    Complete(key, batch);
    return control_->Store(std::nullopt, std::move(batch),
                           [answer](const absl::Status& stored) { Tell(stored, answer); });
  }
  control_->Store(std::nullopt, std::move(batch),
                  [this, key, part, answer](const absl::Status& stored) {
                    stored.ok() ? StoreFrom(key, part + 1, answer) : Tell(stored, answer);
                  });
}

void HeldCode::Complete(const Upload& key, WriteBatch& batch) {
  const auto& [submitter, sha256] = key;
  Files& files = files_.try_emplace(sha256, std::move(uploads_.at(key))).first->second;
  uploads_.erase(key);
  files.use.complete = true;
  files.use.senders.insert(submitter);
  files.use.touched = EventLoop::Now();
  v1::CodeRecord record;
  record.set_bytes(files.use.bytes);
  record.set_upload(files.upload);
  for (const std::string& sender : files.use.senders) record.add_senders(sender);
  batch.puts[kRecords + sha256] = record.SerializeAsString();
  PACELINE_LOG(INFO) << "code_received sha256=" << sha256 << " bytes=" << files.use.bytes
                     << " submitter=" << submitter;
}

void HeldCode::Erase(const Files& files, size_t parts, WriteBatch& batch) {
  for (size_t part = 0; part < parts; ++part) {
    batch.deletes.push_back(PartKey(files.upload, part));
  }
}

std::set<std::string> HeldCode::UsedHashes() const {
  std::set<std::string> used;
  for (const auto& [id, job] : control_->cluster().jobs()) {
    if (!job.ended_already() && job.request.command.has_value()) {
      used.insert(job.request.command->code);
    }
  }
  return used;
}

std::map<std::string, HeldCode::Files>::iterator HeldCode::ForgetOne(
    std::map<std::string, Files>::iterator files, WriteBatch& batch) {
  PACELINE_LOG(INFO) << "code_forgotten sha256=" << files->first;
  batch.deletes.push_back(kRecords + files->first);
  Erase(files->second, PartsOf(files->second.use.bytes), batch);
  return files_.erase(files);
}

void HeldCode::Forget() {
  const std::set<std::string> used = UsedHashes();
  const absl::Time now = EventLoop::Now();
  WriteBatch batch;
  for (auto files = files_.begin(); files != files_.end();) {
    if (used.count(files->first) > 0) files->second.use.touched = now;
    files =
        IsOutdated(files->second.use, now, limits_) ? ForgetOne(files, batch) : std::next(files);
  }
  for (auto upload = uploads_.begin(); upload != uploads_.end();) {
    const CodeUse& use = upload->second.use;
    // An upload that is being stored will not be here for long.
    const bool has_all = static_cast<int64_t>(upload->second.bytes.size()) == use.bytes;
    upload = has_all || !IsOutdated(use, now, limits_) ? std::next(upload) : uploads_.erase(upload);
  }
  control_->Store(std::nullopt, std::move(batch), [](const absl::Status&) {});
  loop_->After(kLook, [this] { Forget(); });
}

grpc::Status HeldCode::CheckSent(const std::string& submitter, const v1::Code& code) const {
  const auto files = files_.find(code.sha256());
  const bool sent = files != files_.end() && files->second.use.senders.count(submitter) > 0 &&
                    files->second.use.bytes == code.bytes();
  return sent ? grpc::Status::OK : NotSent(code.sha256());
}

v1::CodeData HeldCode::Read(const NodeName& node, const v1::CodeRequest& request) const {
  v1::CodeData data;
  data.set_job(request.job());
  data.set_sha256(request.sha256());
  data.set_offset(request.offset());
  const Job* job = control_->cluster().FindJob(JobId(request.job()));
  const bool is_here = job != nullptr && job->request.command.has_value() &&
                       job->request.command->code == request.sha256() &&
                       std::any_of(job->ranks.begin(), job->ranks.end(),
                                   [&](const auto& rank) { return rank.slot.node == node; });
  if (!is_here) {
    data.set_error("no rank of a job with it is placed on this node");
    return data;
  }
  const auto files = files_.find(request.sha256());
  if (files == files_.end()) {
    data.set_error(absl::StrCat("the controller does not have the code ", request.sha256(),
                                " any more: submit the job again by `paceline submit --ship`"));
    return data;
  }
  const auto size = static_cast<int64_t>(files->second.bytes.size());
  if (request.offset() < 0 || request.offset() >= size) {
    data.set_error(absl::StrCat("it has ", size, " bytes, and no part at ", request.offset()));
    return data;
  }
  data.set_data(files->second.bytes.substr(static_cast<size_t>(request.offset()), kMaxCodePart));
  return data;
}

}  // namespace paceline
