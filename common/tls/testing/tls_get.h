// TLS clients with OpenSSL, for tests of servers: a GET, the server's certificate, and the
// negotiated version.
#ifndef COMMON_TLS_TESTING_TLS_GET_H_
#define COMMON_TLS_TESTING_TLS_GET_H_

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <string>

#include "common/tls/tls_files.h"

namespace paceline {

// A connection. Without a certificate in `files`, it shows none; without an authority, it does not
// check the server.
class TlsConnection {
 public:
  TlsConnection(const std::string& address, const TlsFiles& files)
      : context_(SSL_CTX_new(TLS_client_method())) {
    if (!files.ca.empty()) {
      SSL_CTX_load_verify_locations(context_, files.ca.c_str(), nullptr);
      SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
    }
    if (!files.certificate.empty()) {
      SSL_CTX_use_certificate_chain_file(context_, files.certificate.c_str());
      SSL_CTX_use_PrivateKey_file(context_, files.key.c_str(), SSL_FILETYPE_PEM);
    }
    connection_ = BIO_new_ssl_connect(context_);
    BIO_set_conn_hostname(connection_, address.c_str());
  }
  ~TlsConnection() {
    BIO_free_all(connection_);
    SSL_CTX_free(context_);
    ERR_clear_error();
  }
  TlsConnection(const TlsConnection&) = delete;
  TlsConnection& operator=(const TlsConnection&) = delete;

  // False: the connection failed.
  bool Say(const std::string& bytes) {
    ERR_clear_error();  // Of earlier calls on this thread.
    return BIO_do_connect(connection_) == 1 &&
           BIO_write(connection_, bytes.data(), static_cast<int>(bytes.size())) > 0;
  }
  // What the server sends next; empty: it has hung up.
  std::string Hear() {
    char buffer[4096];
    const int got = BIO_read(connection_, buffer, sizeof buffer);
    return got > 0 ? std::string(buffer, static_cast<size_t>(got)) : "";
  }
  // Everything until it hangs up.
  std::string HearAll() {
    std::string all;
    for (std::string next = Hear(); !next.empty(); next = Hear()) all += next;
    return all;
  }

 private:
  SSL_CTX* const context_;
  BIO* connection_ = nullptr;
};

// The server's whole answer with headers; empty if the connection fails or ends without one.
// `first`: a request sent before on the same connection, which stays open.
inline std::string TlsGet(const std::string& address, const std::string& path,
                          const TlsFiles& files, const std::string& first = "") {
  TlsConnection connection(address, files);
  const std::string before =
      first.empty() ? "" : "GET " + first + " HTTP/1.1\r\nHost: test\r\n\r\n";
  const std::string request =
      before + "GET " + path + " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
  return connection.Say(request) ? connection.HearAll() : "";
}

// The server's certificate in PEM; empty: none.
inline std::string ServerCertificate(const std::string& address) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  BIO* connection = BIO_new_ssl_connect(context);
  BIO_set_conn_hostname(connection, address.c_str());
  std::string pem;
  SSL* ssl = nullptr;
  if (BIO_do_connect(connection) == 1 && BIO_get_ssl(connection, &ssl) == 1) {
    X509* certificate = SSL_get1_peer_certificate(ssl);
    BIO* text = BIO_new(BIO_s_mem());
    if (certificate != nullptr && PEM_write_bio_X509(text, certificate) == 1) {
      char* data = nullptr;
      const long size = BIO_get_mem_data(text, &data);
      pem.assign(data, static_cast<size_t>(size));
    }
    BIO_free_all(text);
    X509_free(certificate);
  }
  BIO_free_all(connection);
  SSL_CTX_free(context);
  ERR_clear_error();
  return pem;
}

// The TLS version negotiated by a client that knows none above `newest` (TLS1_1_VERSION) and
// accepts all older ones, as old programs did: "TLSv1.3". On failure OpenSSL's reason, like "tlsv1
// alert protocol version"; empty: the server hung up without one.
inline std::string NegotiatedVersion(const std::string& address, int newest) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  // This machine's default settings forbid the signatures of versions before 1.2.
  SSL_CTX_set_security_level(context, 0);
  SSL_CTX_set_min_proto_version(context, TLS1_VERSION);
  SSL_CTX_set_max_proto_version(context, newest);
  BIO* connection = BIO_new_ssl_connect(context);
  BIO_set_conn_hostname(connection, address.c_str());
  ERR_clear_error();
  std::string version;
  SSL* ssl = nullptr;
  if (BIO_do_connect(connection) == 1 && BIO_get_ssl(connection, &ssl) == 1) {
    version = SSL_get_version(ssl);
  } else if (const char* const why = ERR_reason_error_string(ERR_peek_last_error())) {
    version = why;
  }
  BIO_free_all(connection);
  SSL_CTX_free(context);
  ERR_clear_error();
  return version;
}

// The server's answer to these bytes, until it hangs up.
inline std::string AnswerToBytes(const std::string& address, const std::string& bytes) {
  BIO* connection = BIO_new_connect(address.c_str());
  std::string answer;
  if (BIO_do_connect(connection) == 1) {
    if (!bytes.empty()) BIO_write(connection, bytes.data(), static_cast<int>(bytes.size()));
    char buffer[4096];
    int got = 0;
    while ((got = BIO_read(connection, buffer, sizeof buffer)) > 0) {
      answer.append(buffer, static_cast<size_t>(got));
    }
  }
  BIO_free_all(connection);
  ERR_clear_error();
  return answer;
}

}  // namespace paceline

#endif  // COMMON_TLS_TESTING_TLS_GET_H_
