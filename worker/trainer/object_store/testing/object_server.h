// A store of objects on this machine, which answers requests for ranges, and may answer wrongly.
#ifndef WORKER_TRAINER_OBJECT_STORE_TESTING_OBJECT_SERVER_H_
#define WORKER_TRAINER_OBJECT_STORE_TESTING_OBJECT_SERVER_H_

#include <openssl/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace paceline {

// Answers one request after the other, each on a connection of its own. Thread-safe.
class ObjectServer {
 public:
  struct Request {
    std::string path;                            // "/bucket/key", as it was sent.
    std::map<std::string, std::string> headers;  // Names in lower case.
  };

  // Serves TLS with `context`; null: plain text. With TLS, SIGPIPE is to be ignored.
  explicit ObjectServer(std::shared_ptr<SSL_CTX> context = nullptr);
  ~ObjectServer();

  std::string url() const;  // "http://127.0.0.1:PORT", or https.

  // Puts an object in the place of one with this path, and gives it another ETag.
  void Put(const std::string& path, std::string bytes);

  // What is sent to the n-th request from now on, from 0; nothing: the right answer.
  using Fault = std::function<std::optional<std::string>(const Request& request, int n)>;
  void SetFault(Fault fault);

  // The whole answer that is right.
  std::string AnswerTo(const Request& request) const;
  // One without bytes of an object: "403 Forbidden" and a body.
  static std::string Error(const std::string& status, const std::string& body = "");

  std::vector<Request> requests() const;
  size_t bytes_sent() const;  // Of all answers.

 private:
  struct Object {
    std::string bytes;
    std::string etag;
  };

  class Connection;

  void Run();
  void Serve(Connection& connection);

  const std::shared_ptr<SSL_CTX> context_;

  int listener_ = -1;
  int port_ = 0;
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int versions_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Object> objects_ ABSL_GUARDED_BY(mutex_);
  Fault fault_ ABSL_GUARDED_BY(mutex_);
  int since_fault_ ABSL_GUARDED_BY(mutex_) = 0;  // Requests.
  std::vector<Request> requests_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_sent_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_OBJECT_STORE_TESTING_OBJECT_SERVER_H_
