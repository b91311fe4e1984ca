// Reads ranges of bytes over HTTP, by libcurl, which also signs requests to S3.
#ifndef WORKER_TRAINER_OBJECT_STORE_HTTP_CLIENT_H_
#define WORKER_TRAINER_OBJECT_STORE_HTTP_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/trainer/object_store/core/store_answer.h"

namespace paceline {

struct HttpRequest {
  std::string url;                   // With an encoded path.
  std::vector<std::string> headers;  // "Name: value".
  uint64_t first = 0;                // Offset of the range.
  // Of AWS's signature: "aws:amz:REGION:s3", and the key. Empty: unsigned.
  std::string sign_as;
  std::string access_key;
  std::string secret_key;
  bool uses_netrc = false;  // Takes a user and password for the host of `url` from ~/.netrc.
  bool follows = false;     // Goes where the server leads, over https alone.
  bool is_local = false;    // The server is on this machine, where no proxy leads.
};

// Keeps connections for later requests. Thread-safe.
class HttpClient {
 public:
  // Trusts the authorities of `ca_file`; empty: those of SSL_CERT_FILE, or of the system.
  explicit HttpClient(std::string ca_file = "");
  ~HttpClient();

  // Asks for out.size() bytes, at least 1, from request.first on, and writes them to `out`. Ends
  // early, with a problem that may pass, when a server has not sent all within `limit`, or when
  // `is_over` returns true: it is called once a second, and with each part that arrives.
  StoreAnswer Get(const HttpRequest& request, absl::Span<char> out, absl::Duration limit,
                  absl::FunctionRef<bool()> is_over);

 private:
  class Connection;  // With what it is about to transfer.

  std::unique_ptr<Connection> Take();

  const std::string ca_file_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Connection>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paceline

#endif  // WORKER_TRAINER_OBJECT_STORE_HTTP_CLIENT_H_
