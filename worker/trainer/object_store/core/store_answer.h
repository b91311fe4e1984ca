// What an object store has answered, and what follows from it.
#ifndef WORKER_TRAINER_OBJECT_STORE_CORE_STORE_ANSWER_H_
#define WORKER_TRAINER_OBJECT_STORE_CORE_STORE_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace paceline {

// The answer to a request for bytes of an object.
struct StoreAnswer {
  int status = 0;         // Of HTTP; 0: none has arrived.
  std::string problem;    // Of the connection, in words; empty: none.
  bool may_pass = false;  // The problem may be another one, or none, in a while.
  uint64_t received = 0;  // Bytes of the object.
  std::string etag;       // Headers; empty: missing. The quotes belong to the tag.
  std::string last_modified;
  std::string content_range;
  std::optional<absl::Time> date;  // By the store's clock.
  std::string bucket_region;
  std::optional<int64_t> retry_after_s;
  std::string error_body;  // The beginning of what came in the place of bytes.
};

// How a request was made.
struct StoreRequest {
  std::string url;  // As in the job file.
  bool with_credentials = false;
  std::string region;    // For s3; empty: for another store.
  std::string endpoint;  // For s3, one that is not AWS's; empty: AWS's.
};

// The part of an object that was asked for, and its state when it was opened.
struct ObjectVersion {
  uint64_t size = 0;
  std::string etag;  // Headers; empty: missing. The quotes belong to the tag.
  std::string last_modified;
};

struct Judgement {
  enum class Verdict {
    kGood,
    kRetry,                 // After a while.
    kRetryWithCredentials,  // With newer credentials, if there are any.
    kFail,
  };
  Verdict verdict = Verdict::kGood;
  // Says what is wrong, where, and what to do; OK with kGood. DataLoss: the object has changed, or
  // is shorter than it says; NotFound; PermissionDenied; Unavailable with kRetry; else
  // FailedPrecondition.
  absl::Status status;
};

// Judges an answer to a request for the bytes `first` to `first + bytes - 1`. `version`: what the
// object was when it was opened; null: this opens it, and it may have fewer bytes than that.
// `now`: by the clock of this node.
Judgement JudgeAnswer(const StoreRequest& request, const StoreAnswer& answer, uint64_t first,
                      uint64_t bytes, const ObjectVersion* version, absl::Time now);

// The object's size by "bytes 0-63/1000"; nothing: it is not said.
std::optional<uint64_t> SizeOfObject(absl::string_view content_range);

// A header and its value by which a store refuses to read another version than this one, as
// If-Match; empty: the version has nothing that it could be known by exactly.
std::string ConditionOf(const ObjectVersion& version);

}  // namespace paceline

#endif  // WORKER_TRAINER_OBJECT_STORE_CORE_STORE_ANSWER_H_
