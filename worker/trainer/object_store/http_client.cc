#include "worker/trainer/object_store/http_client.h"

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/version.h"

namespace paceline {
namespace {

constexpr long kConnectTimeoutMs = 10'000;
// A transfer slower than this for so long is broken off.
constexpr long kLeastBytesPerSecond = 1024;
constexpr long kSlowSeconds = 30;
constexpr int kMostRedirects = 5;
constexpr size_t kMostErrorBytes = 16 * 1024;

// Where distributions keep the authorities that they trust, beside what libcurl was built for.
constexpr const char* kAuthorities[] = {
    "/etc/ssl/certs/ca-certificates.crt",  // Debian, Ubuntu.
    "/etc/pki/tls/certs/ca-bundle.crt",    // Fedora, RHEL.
    "/etc/ssl/ca-bundle.pem",              // SUSE.
    "/etc/ssl/cert.pem",                   // Alpine, Arch.
};

std::string Authorities(std::string given) {
  if (!given.empty()) return given;
  if (const char* const file = std::getenv("SSL_CERT_FILE"); file != nullptr) return file;
  for (const char* const file : kAuthorities) {
    if (::access(file, R_OK) == 0) return file;
  }
  return "";
}

void InitialiseOnce() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
}

// Whether another try may go better.
bool MayPass(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_AGAIN:
    case CURLE_ABORTED_BY_CALLBACK:  // Whoever asked knows whether there is to be another try.
    case CURLE_WRITE_ERROR:          // More bytes than were asked for.
      return true;
    default:
      return false;
  }
}

// "https://HOST:PORT".
absl::string_view OriginOf(absl::string_view url) {
  const size_t mark = url.find("://");
  return mark == url.npos ? url : url.substr(0, url.find('/', mark + 3));
}

// Without the user and password that libcurl puts before the host after a use of ~/.netrc.
std::string WithoutUser(std::string url) {
  const size_t host = url.find("://") + 3;
  const size_t at = url.rfind('@', url.find('/', host));
  if (at != url.npos && at > host) url.erase(host, at + 1 - host);
  return url;
}

struct FreeHeaders {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

}  // namespace

class HttpClient::Connection {
 public:
  explicit Connection(const std::string& ca_file) : curl_(curl_easy_init()), ca_file_(ca_file) {}
  ~Connection() { curl_easy_cleanup(curl_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  StoreAnswer Get(const HttpRequest& request, absl::Span<char> out, absl::Duration limit,
                  absl::FunctionRef<bool()> is_over) {
    out_ = out;
    limit_ = limit;
    is_over_.emplace(is_over);
    if (curl_ == nullptr) {
      answer_ = StoreAnswer();
      answer_.problem = "libcurl has no memory for a connection";
      return answer_;
    }
    std::string url = request.url;
    for (int redirects = 0;; ++redirects) {
      Perform(request, url);
      // libcurl, if it followed by itself, would give the next host its own user of ~/.netrc.
      char* next = nullptr;
      curl_easy_getinfo(curl_, CURLINFO_REDIRECT_URL, &next);
      const bool leads_on = next != nullptr && absl::StartsWith(next, "https://");
      if (!request.follows || !leads_on || redirects == kMostRedirects) break;
      url = WithoutUser(next);
    }
    return std::move(answer_);
  }

 private:
  void Perform(const HttpRequest& request, const std::string& url) {
    answer_ = StoreAnswer();
    headers_end_ = false;
    curl_easy_reset(curl_);  // Keeps the connection.
    SetUp();
    const std::unique_ptr<curl_slist, FreeHeaders> headers = Address(request, url);
    Finish(curl_easy_perform(curl_));
  }

  // What is the same for all requests.
  void SetUp() {
    curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);
    // A look-up of a name that is broken off ends by itself; libcurl would wait for the resolver.
    curl_easy_setopt(curl_, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(curl_, CURLOPT_CONNECTTIMEOUT_MS, kConnectTimeoutMs);
    // Of 0 libcurl would take that there is none.
    curl_easy_setopt(curl_, CURLOPT_TIMEOUT_MS,
                     static_cast<long>(std::max(absl::ToInt64Milliseconds(limit_), int64_t{1})));
    curl_easy_setopt(curl_, CURLOPT_LOW_SPEED_LIMIT, kLeastBytesPerSecond);
    curl_easy_setopt(curl_, CURLOPT_LOW_SPEED_TIME, kSlowSeconds);
    curl_easy_setopt(curl_, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl_, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl_, CURLOPT_USERAGENT, agent_.c_str());
    if (!ca_file_.empty()) curl_easy_setopt(curl_, CURLOPT_CAINFO, ca_file_.c_str());
    curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, error_);
    curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, &Connection::OnBytes);
    curl_easy_setopt(curl_, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(curl_, CURLOPT_HEADERFUNCTION, &Connection::OnHeader);
    curl_easy_setopt(curl_, CURLOPT_HEADERDATA, this);
    curl_easy_setopt(curl_, CURLOPT_XFERINFOFUNCTION, &Connection::OnProgress);
    curl_easy_setopt(curl_, CURLOPT_XFERINFODATA, this);
    curl_easy_setopt(curl_, CURLOPT_NOPROGRESS, 0L);
    error_[0] = '\0';
  }

  // Returns the headers, which are to live as long as the transfer.
  std::unique_ptr<curl_slist, FreeHeaders> Address(const HttpRequest& request,
                                                   const std::string& url) {
    std::unique_ptr<curl_slist, FreeHeaders> headers;
    for (const std::string& header : request.headers) {
      // Returns the beginning of the list, which is the new entry of an empty one.
      curl_slist* const list = curl_slist_append(headers.get(), header.c_str());
      if (list != nullptr && headers == nullptr) headers.reset(list);
    }
    const std::string range = absl::StrCat(request.first, "-", request.first + out_.size() - 1);
    curl_easy_setopt(curl_, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl_, CURLOPT_RANGE, range.c_str());
    curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, headers.get());
    if (request.is_local) curl_easy_setopt(curl_, CURLOPT_PROXY, "");
    if (request.uses_netrc && OriginOf(url) == OriginOf(request.url)) {
      curl_easy_setopt(curl_, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_OPTIONAL));
    }
    if (!request.sign_as.empty()) {
      curl_easy_setopt(curl_, CURLOPT_AWS_SIGV4, request.sign_as.c_str());
      curl_easy_setopt(curl_, CURLOPT_USERNAME, request.access_key.c_str());
      curl_easy_setopt(curl_, CURLOPT_PASSWORD, request.secret_key.c_str());
    }
    return headers;
  }

  void Finish(CURLcode code) {
    answer_.status = static_cast<int>(Status());
    if (code == CURLE_OK && headers_end_) return;
    if (code == CURLE_OK) {
      answer_ = StoreAnswer();
      answer_.problem = "the connection was closed within the headers of the answer";
      answer_.may_pass = true;
      return;
    }
    answer_.problem = absl::StrCat(curl_easy_strerror(code), error_[0] == '\0' ? "" : ": ", error_);
    answer_.may_pass = MayPass(code);
    // Of an answer that broke off in the middle only the error counts.
    if (answer_.status == 206) answer_.status = 0;
  }

  long Status() const {
    long status = 0;
    curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

  static size_t OnBytes(char* data, size_t size, size_t count, void* self) {
    return static_cast<Connection*>(self)->TakeBytes({data, size * count});
  }

  // Fewer than all bytes end the transfer.
  size_t TakeBytes(absl::string_view bytes) {
    const long status = Status();
    if (status == 200) return 0;
    if (status != 206) {
      const size_t room = kMostErrorBytes - answer_.error_body.size();
      if (room == 0) return 0;
      absl::StrAppend(&answer_.error_body, bytes.substr(0, room));
      return bytes.size();
    }
    if (bytes.size() > out_.size() - answer_.received) return 0;
    std::memcpy(out_.data() + answer_.received, bytes.data(), bytes.size());
    answer_.received += bytes.size();
    return bytes.size();
  }

  static size_t OnHeader(char* data, size_t size, size_t count, void* self) {
    static_cast<Connection*>(self)->TakeHeader({data, size * count});
    return size * count;
  }

  void TakeHeader(absl::string_view line) {
    if (absl::StartsWith(line, "HTTP/")) {  // The next answer, after one of a proxy or "continue".
      answer_ = StoreAnswer();
      headers_end_ = false;
      return;
    }
    if (line == "\r\n" || line == "\n") headers_end_ = true;
    const size_t colon = line.find(':');
    if (colon == line.npos) return;
    const std::string name = absl::AsciiStrToLower(line.substr(0, colon));
    const std::string value(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    if (name == "etag") answer_.etag = value;
    if (name == "last-modified") answer_.last_modified = value;
    if (name == "content-range") answer_.content_range = value;
    if (name == "x-amz-bucket-region") answer_.bucket_region = value;
    int64_t seconds = 0;
    if (name == "retry-after" && absl::SimpleAtoi(value, &seconds)) answer_.retry_after_s = seconds;
    if (name == "date") {
      const time_t date = curl_getdate(value.c_str(), nullptr);
      if (date >= 0) answer_.date = absl::FromTimeT(date);
    }
  }

  static int OnProgress(void* self, curl_off_t /*to_load*/, curl_off_t /*loaded*/,
                        curl_off_t /*to_send*/, curl_off_t /*sent*/) {
    return (*static_cast<Connection*>(self)->is_over_)() ? 1 : 0;
  }

  CURL* const curl_;
  const std::string ca_file_;
  const std::string agent_ = absl::StrCat("paceline/", kVersion);
  char error_[CURL_ERROR_SIZE] = {};

  StoreAnswer answer_;
  bool headers_end_ = false;  // All of the answer have arrived.
  absl::Span<char> out_;
  absl::Duration limit_;
  std::optional<absl::FunctionRef<bool()>> is_over_;  // Of the transfer under way.
};

HttpClient::HttpClient(std::string ca_file) : ca_file_(Authorities(std::move(ca_file))) {
  InitialiseOnce();
}

HttpClient::~HttpClient() = default;

std::unique_ptr<HttpClient::Connection> HttpClient::Take() {
  const absl::MutexLock lock(&mutex_);
  if (idle_.empty()) return std::make_unique<Connection>(ca_file_);
  std::unique_ptr<Connection> connection = std::move(idle_.back());
  idle_.pop_back();
  return connection;
}

StoreAnswer HttpClient::Get(const HttpRequest& request, absl::Span<char> out, absl::Duration limit,
                            absl::FunctionRef<bool()> is_over) {
  std::unique_ptr<Connection> connection = Take();
  StoreAnswer answer = connection->Get(request, out, limit, is_over);
  const absl::MutexLock lock(&mutex_);
  idle_.push_back(std::move(connection));
  return answer;
}

}  // namespace paceline
