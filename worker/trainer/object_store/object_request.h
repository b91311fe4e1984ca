// Makes requests for ranges of an object, with the credentials that the node has at that moment.
#ifndef WORKER_TRAINER_OBJECT_STORE_OBJECT_REQUEST_H_
#define WORKER_TRAINER_OBJECT_STORE_OBJECT_REQUEST_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/core/object_url.h"
#include "worker/trainer/object_store/core/store_answer.h"
#include "worker/trainer/object_store/credentials.h"
#include "worker/trainer/object_store/http_client.h"

namespace paceline {

struct ObjectRequest {
  HttpRequest http;
  StoreRequest store;
};

// A request for the bytes from `first` on, of `version` alone unless that is null. `name`: the
// object's address as it is in the job file. Errors of ReadS3Settings and ReadGsSettings.
absl::StatusOr<ObjectRequest> MakeRequest(const std::string& name, const ObjectUrl& url,
                                          uint64_t first, const ObjectVersion* version,
                                          const Variables& variables);

// Whether both were made with the same credentials, for the same range and version.
bool IsSameRequest(const HttpRequest& a, const HttpRequest& b);

}  // namespace paceline

#endif  // WORKER_TRAINER_OBJECT_STORE_OBJECT_REQUEST_H_
