#include "common/tls/handshake_probe.h"

#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "common/core/host_port.h"
#include "common/tls/certificate.h"
#include "common/tls/openssl.h"
#include "common/tls/private_file.h"

namespace paceline {
namespace {

// gRPC's protocol, by its TLS name (RFC 7301).
constexpr unsigned char kProtocols[] = {2, 'h', '2'};

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// The time left, by a clock that nobody can set.
class Limit {
 public:
  explicit Limit(absl::Duration limit)
      : end_(std::chrono::steady_clock::now() + absl::ToChronoMilliseconds(limit)) {}

  // Whether the socket is ready in time.
  bool WaitFor(int fd, short events) const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end_ - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd waiting{fd, events, 0};
    return poll(&waiting, 1, static_cast<int>(left.count())) > 0;
  }

 private:
  const std::chrono::steady_clock::time_point end_;
};

// Returns -1 if nobody is there.
int Connect(const std::string& host, const std::string& port, const Limit& limit) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return -1;
  int connected = -1;
  for (const addrinfo* at = found; at != nullptr && connected < 0; at = at->ai_next) {
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    int error = 0;
    socklen_t size = sizeof error;
    const bool begun = connect(fd, at->ai_addr, at->ai_addrlen) == 0 ||
                       (errno == EINPROGRESS && limit.WaitFor(fd, POLLOUT) &&
                        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0);
    if (begun) {
      connected = fd;
    } else {
      close(fd);
    }
  }
  freeaddrinfo(found);
  return connected;
}

// Repeats `step` until it is done or the time is over; returns its last result.
template <typename Step>
int Drive(SSL* ssl, int fd, const Limit& limit, const Step& step) {
  while (true) {
    ERR_clear_error();
    const int result = step();
    if (result > 0) return result;
    const int wants = SSL_get_error(ssl, result);
    if (wants != SSL_ERROR_WANT_READ && wants != SSL_ERROR_WANT_WRITE) return result;
    if (!limit.WaitFor(fd, wants == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT)) return result;
  }
}

// One connection, up to the server's first message or another outcome.
class Attempt {
 public:
  enum class Outcome {
    kNothing,  // Nobody is there, or it is silent.
    kEnded,    // The server closed the connection without a word, as when it dies.
    kNoTls,    // It sent something that is not TLS.
    kAlert,
    kSpoken,
  };

  // `context` determines whether a certificate is shown, and which.
  Attempt(SSL_CTX* context, const std::string& host, const std::string& port, const Limit& limit)
      : socket_(Connect(host, port, limit)), ssl_(SSL_new(context)) {
    SSL* const ssl = ssl_.get();
    if (socket_.fd() < 0 || ssl == nullptr || SSL_set_fd(ssl, socket_.fd()) != 1) return;
    SSL_set_alpn_protos(ssl, kProtocols, sizeof kProtocols);
    SSL_set_tlsext_host_name(ssl, host.c_str());
    int result = Drive(ssl, socket_.fd(), limit, [ssl] { return SSL_connect(ssl); });
    certificate_.reset(SSL_get1_peer_certificate(ssl));
    shaken_ = result == 1;
    // With TLS 1.3, the server objects after the handshake; a satisfied one begins to speak.
    char byte = 0;
    if (shaken_) {
      result = Drive(ssl, socket_.fd(), limit, [&] { return SSL_read(ssl, &byte, 1); });
    }
    outcome_ = OutcomeOf(result);
    ERR_clear_error();
  }

  Outcome outcome() const { return outcome_; }
  // A code of RFC 8446, section 6.
  int alert() const { return alert_; }
  // The server's certificate; null if it has shown none.
  X509* certificate() const { return certificate_.get(); }
  bool speaks_tls() const { return shaken_ || certificate_ != nullptr; }

 private:
  Outcome OutcomeOf(int result) {
    if (result > 0) return Outcome::kSpoken;
    const int kind = SSL_get_error(ssl_.get(), result);
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) return Outcome::kNothing;
    const int reason = ERR_GET_REASON(ERR_peek_last_error());
    if (kind != SSL_ERROR_SSL || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
      return Outcome::kEnded;
    }
    alert_ = std::max(0, reason - SSL_AD_REASON_OFFSET);
    return alert_ > 0 ? Outcome::kAlert : Outcome::kNoTls;
  }

  const Socket socket_;
  const SslPtr ssl_;
  X509Ptr certificate_;
  bool shaken_ = false;
  Outcome outcome_ = Outcome::kNothing;
  int alert_ = 0;
};

// Null: the certificate cannot be used.
SslContextPtr ContextOf(const std::optional<TlsFiles>& files) {
  SslContextPtr context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return nullptr;
  // Problems are found and described below.
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
  if (files.has_value() && !files->certificate.empty() &&
      (SSL_CTX_use_certificate_chain_file(context.get(), files->certificate.c_str()) != 1 ||
       SSL_CTX_use_PrivateKey_file(context.get(), files->key.c_str(), SSL_FILETYPE_PEM) != 1)) {
    ERR_clear_error();
    return nullptr;
  }
  return context;
}

// Describes an alert that is not about our certificate.
std::string AlertText(const std::string& address, int alert) {
  return absl::StrCat("the server at ", address,
                      " refuses the TLS connection: ", SSL_alert_desc_string_long(alert));
}

// Describes how the server rejects our certificate. `alert` 0: it closed the connection silently.
std::string OwnRefused(int alert, const TlsFiles& files, absl::Time now) {
  const absl::StatusOr<Certificate> own = CheckTlsFiles(files, now);
  if (!own.ok()) return std::string(own.status().message());
  std::string said;
  switch (alert) {
    case SSL_AD_CERTIFICATE_EXPIRED:
      said = "; by its clock it has expired";
      break;
    case SSL_AD_UNKNOWN_CA:
      said = "; it knows another authority";
      break;
    default:
      said =
          "; either it knows another authority, or by its clock the certificate has expired or "
          "is not valid yet";
  }
  return absl::StrCat(
      "the server does not accept the certificate of ", PrincipalUri(own->principal),
      ", issued by \"", own->issuer, "\", valid from ", TimeText(own->not_before), " to ",
      TimeText(own->not_after), said, "; this machine's clock says ", TimeText(now));
}

bool IsOfCertificate(int alert) {
  return (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) ||
         alert == SSL_AD_UNKNOWN_CA || alert == SSL_AD_ACCESS_DENIED ||
         alert == SSL_AD_DECRYPT_ERROR;
}

bool NamesHost(X509* certificate, const std::string& host) {
  return X509_check_ip_asc(certificate, host.c_str(), 0) == 1 ||
         X509_check_host(certificate, host.data(), host.size(), 0, nullptr) == 1;
}

// What is wrong with the server's certificate (may be null); empty: nothing.
std::string ServerProblem(X509* certificate, const TlsFiles& files, const std::string& host,
                          absl::Time now) {
  if (certificate == nullptr) return "the server shows no certificate";
  const absl::StatusOr<std::string> ca = ReadWhole(files.ca);
  if (!ca.ok()) return std::string(ca.status().message());
  const absl::Status held = CheckCertificate(PemOf(certificate), *ca, now);
  if (absl::IsFailedPrecondition(held)) {
    return absl::StrCat("the server's certificate is signed by another authority than that of ",
                        files.ca, ": is it the right cluster, or does somebody listen in?");
  }
  if (!held.ok()) return absl::StrCat("of the server, ", held.message());
  const absl::StatusOr<Certificate> read = ReadCertificate(PemOf(certificate));
  if (!read.ok() || read->principal.role != Role::kController) {
    return "the server's certificate is no controller's: somebody else serves there";
  }
  if (!NamesHost(certificate, host)) {
    return absl::StrCat("the server's certificate does not name \"", host,
                        "\": reach it by a name that `paceline pki init --host` was given, or give "
                        "it a certificate with this one");
  }
  return "";
}

}  // namespace

std::string ExplainConnection(const std::string& address, const std::optional<TlsFiles>& files,
                              absl::Time now, absl::Duration limit) {
  const absl::StatusOr<HostPort> at = ParseHostPort(address);
  if (!at.ok()) return "";
  const std::string& host = at->host;
  const std::string port = absl::StrCat(at->port);
  const Limit end(limit);
  const SslContextPtr context = ContextOf(files);
  if (context == nullptr) {
    const absl::StatusOr<Certificate> own = CheckTlsFiles(*files, now);
    return own.ok() ? "" : std::string(own.status().message());
  }
  using Outcome = Attempt::Outcome;
  const Attempt attempt(context.get(), host, port, end);
  if (!files.has_value()) {
    return attempt.speaks_tls()
               ? absl::StrCat("the server at ", address,
                              " speaks TLS, and was asked for plain text: leave --plaintext out, "
                              "and give certificates with --tls-dir")
               : "";
  }
  if (attempt.outcome() == Outcome::kNoTls && !attempt.speaks_tls()) {
    return absl::StrCat("the server at ", address,
                        " does not speak TLS: it serves plain text, or is no controller; nothing "
                        "was told to it");
  }
  if (attempt.speaks_tls()) {
    const std::string problem = ServerProblem(attempt.certificate(), *files, host, now);
    if (!problem.empty()) return problem;
  }
  if (attempt.outcome() == Outcome::kAlert) {
    if (!files->certificate.empty() && IsOfCertificate(attempt.alert())) {
      return OwnRefused(attempt.alert(), *files, now);
    }
    return AlertText(address, attempt.alert());
  }
  // Controllers let in clients without a certificate, and judge each of their calls.
  if (attempt.outcome() != Outcome::kEnded || files->certificate.empty()) return "";
  // gRPC rejects a certificate silently, like a server that dies. If the server talks to a client
  // without a certificate, but hangs up again on ours, then ours is the problem.
  const SslContextPtr nobody = ContextOf(std::nullopt);
  if (Attempt(nobody.get(), host, port, end).outcome() != Outcome::kSpoken ||
      Attempt(context.get(), host, port, end).outcome() != Outcome::kEnded) {
    return "";
  }
  return OwnRefused(0, *files, now);
}

}  // namespace paceline
