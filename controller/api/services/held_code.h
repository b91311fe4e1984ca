// Keeps the code that travels with jobs (JobSpec.code): takes it from submitters in parts
// (JobService.UploadCode), gives it to the nodes that run the jobs (WorkerSessions), and forgets it
// when no job uses it (core/requests/code_quota.h).
//
// It is in the state store, so that the next controller has it, and in memory, so that nodes are
// answered without the store. It is stored only once it is complete and its hash is right, so that
// nobody can fill the store with code that is never used:
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

  // Code in a store. Load returns DataLoss, naming the key, when a record cannot be read.
  struct Files {
    CodeUse use = {};
    std::string upload = {};  // Part of the keys of its parts.
    std::string bytes = {};
    Sha256 sum = {};  // Of those that have come; as they come, so that the loop never waits long.
  };
  struct Stored {
    std::map<std::string, Files> files;  // By hash.
    std::vector<std::string> strays;     // Keys of parts that belong to no code.
  };
  static absl::StatusOr<Stored> Load(StateStore& store);

  // All pointers outlive this.
  HeldCode(EventLoop* loop, ControlLoop* control, Stored stored, CodeLimits limits = {});

  // Takes a part. The answer to the last part comes when all parts are durable.
  void Receive(const std::string& submitter, const v1::UploadCodeRequest& request,
               v1::UploadCodeResponse* reply, const Answer& answer);

  // Returns FAILED_PRECONDITION, CODE_NOT_FOUND, unless the submitter has sent the code.
  grpc::Status CheckSent(const std::string& submitter, const v1::Code& code) const;

  // Returns the part that the node asks for, or an error: the job has no rank there, or the code is
  // missing.
  v1::CodeData Read(const NodeName& node, const v1::CodeRequest& request) const;

 private:
  using Upload = std::pair<std::string, std::string>;  // Submitter and hash.

  // Uses of files_, followed by those of uploads_.
  std::vector<CodeUse> Uses() const;
  std::set<std::string> UsedHashes() const;
  // Stores the upload's parts from `part` on, and then completes it.
  void StoreFrom(const Upload& key, size_t part, const Answer& answer);
  void Complete(const Upload& key, WriteBatch& batch);
  // Forgets code that is no longer needed.
  void Forget();
  // Returns the iterator after the removed one.
  std::map<std::string, Files>::iterator ForgetOne(std::map<std::string, Files>::iterator files,
                                                   WriteBatch& batch);
  static void Erase(const Files& files, size_t parts, WriteBatch& batch);

  EventLoop* const loop_;
  ControlLoop* const control_;
  const CodeLimits limits_;
  std::map<std::string, Files> files_;  // By hash.
  std::map<Upload, Files> uploads_;     // Not complete yet.
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_HELD_CODE_H_
