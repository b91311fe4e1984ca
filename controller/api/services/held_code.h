// The code that travels with jobs (JobSpec.code), as the controller keeps it: taken from submitters
// in parts (JobService.UploadCode), given to the nodes that run the jobs (WorkerSessions),
// forgotten when no job uses it (core/code_quota.h).
//
// It is in the state store, so that a controller that takes over has it, and in memory, so that
// nodes are answered without the store. It is stored when all has come and the hash is right, so
// that nobody fills the store with what is never used:
//
//   code/<sha256>                 v1::CodeRecord
//   code-part/<upload>/<4 digits> 512 KiB of its bytes, stored before the record
//
// Runs on the loop.
#ifndef CONTROLLER_API_SERVICES_HELD_CODE_H_
#define CONTROLLER_API_SERVICES_HELD_CODE_H_

#include <grpcpp/support/status.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/event_loop.h"
#include "common/tls/key_and_request.h"
#include "controller/core/requests/code_quota.h"
#include "controller/loop/control_loop.h"
#include "controller/store/state_store.h"
#include "proto/job.pb.h"
#include "proto/worker.pb.h"

namespace paceline {

class HeldCode {
 public:
  using Answer = std::function<void(grpc::Status)>;

  // What a store holds of it. DataLoss, naming the key, when it cannot be read.
  struct Files {
    CodeUse use = {};
    std::string upload = {};  // In the keys of its parts.
    std::string bytes = {};
    Sha256 sum = {};  // Of those that have come; as they come, so that the loop never waits long.
  };
  struct Stored {
    std::map<std::string, Files> files;  // By hash.
    std::vector<std::string> strays;     // Keys of parts that belong to none.
  };
  static absl::StatusOr<Stored> Load(StateStore& store);

  // All pointers outlive this.
  HeldCode(EventLoop* loop, ControlLoop* control, Stored stored, CodeLimits limits = {});

  // Answers the last part when all are durable.
  void Receive(const std::string& submitter, const v1::UploadCodeRequest& request,
               v1::UploadCodeResponse* reply, const Answer& answer);

  // FAILED_PRECONDITION, CODE_NOT_FOUND, unless the submitter has sent it.
  grpc::Status CheckSent(const std::string& submitter, const v1::Code& code) const;

  // What the node has asked for. An error says that the job has no rank there, or that the code is
  // not there.
  v1::CodeData Read(const NodeName& node, const v1::CodeRequest& request) const;

 private:
  using Upload = std::pair<std::string, std::string>;  // Submitter and hash.

  // Of files_, then of uploads_.
  std::vector<CodeUse> Uses() const;
  std::set<std::string> UsedHashes() const;
  // The parts of what has come, from `part` on, and what makes it complete.
  void StoreFrom(const Upload& key, size_t part, const Answer& answer);
  void Complete(const Upload& key, WriteBatch& batch);
  // What is outdated.
  void Forget();
  // Returns what is behind it.
  std::map<std::string, Files>::iterator ForgetOne(std::map<std::string, Files>::iterator files,
                                                   WriteBatch& batch);
  static void Erase(const Files& files, size_t parts, WriteBatch& batch);

  EventLoop* const loop_;
  ControlLoop* const control_;
  const CodeLimits limits_;
  std::map<std::string, Files> files_;  // By hash.
  std::map<Upload, Files> uploads_;     // That are not whole yet.
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_HELD_CODE_H_
