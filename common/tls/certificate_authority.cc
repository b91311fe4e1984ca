#include "common/tls/certificate_authority.h"

#include <arpa/inet.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/rand.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "common/tls/certificate.h"
#include "common/tls/key_and_request.h"
#include "common/tls/openssl.h"
#include "common/tls/private_file.h"

namespace paceline {
namespace {

// RFC 5280, 4.1.2.2: positive, at most 20 bytes.
constexpr int kSerialBytes = 16;
constexpr size_t kLongestHost = 253;
// RFC 5280, ub-common-name.
constexpr size_t kLongestName = 64;

absl::Status SetSerial(X509* certificate) {
  unsigned char bytes[kSerialBytes];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return OpenSslError("no randomness");
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);
  BIGNUM* number = BN_bin2bn(bytes, sizeof bytes, nullptr);
  const bool set = number != nullptr &&
                   BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return set ? absl::OkStatus() : OpenSslError("a certificate cannot be made");
}

bool IsAddress(const std::string& host) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

// Text put into an extension must not be able to add entries to it.
bool IsHostName(const std::string& host) {
  return !host.empty() && host.size() <= kLongestHost &&
         std::all_of(host.begin(), host.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '-';
         });
}

// For people. The space keeps it from being a host name: some clients take a common name for one.
std::string CommonNameOf(const Principal& principal) {
  return absl::StrCat(RoleName(principal.role), " ", principal.name).substr(0, kLongestName);
}

absl::StatusOr<std::string> NamesText(const CertificateAuthority::Grant& grant) {
  const std::string uri = PrincipalUri(grant.principal);
  const absl::StatusOr<Principal> sound = ParsePrincipalUri(uri);
  if (!sound.ok()) return sound.status();
  if (grant.principal.role != Role::kController && !grant.hosts.empty()) {
    return absl::InvalidArgumentError("only a controller's certificate names hosts");
  }
  std::string text = absl::StrCat("URI:", uri);
  for (const std::string& host : grant.hosts) {
    if (IsAddress(host)) {
      absl::StrAppend(&text, ",IP:", host);
    } else if (IsHostName(host)) {
      absl::StrAppend(&text, ",DNS:", host);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", host, "\" is neither a host's name nor an address"));
    }
  }
  return text;
}

absl::Status AddExtension(X509* issuer, X509* certificate, int kind, const std::string& value) {
  X509V3_CTX context = {};
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  const bool added = extension != nullptr && X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added ? absl::OkStatus() : OpenSslError("a certificate cannot be made");
}

absl::Status SetName(X509_NAME* name, const std::string& text) {
  const bool set = X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                              reinterpret_cast<const unsigned char*>(text.data()),
                                              static_cast<int>(text.size()), -1, 0) == 1;
  return set ? absl::OkStatus() : OpenSslError(absl::StrCat("\"", text, "\" cannot be a name"));
}

// Begins a certificate: version, serial number, times, key.
absl::StatusOr<X509Ptr> Begin(EVP_PKEY* key, absl::Time from, absl::Time to) {
  X509Ptr certificate(X509_new());
  if (certificate == nullptr) return OpenSslError("a certificate cannot be made");
  PACELINE_RETURN_IF_ERROR(SetSerial(certificate.get()));
  const bool made =
      X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
      ASN1_TIME_set(X509_getm_notBefore(certificate.get()), absl::ToTimeT(from)) != nullptr &&
      ASN1_TIME_set(X509_getm_notAfter(certificate.get()), absl::ToTimeT(to)) != nullptr &&
      X509_set_pubkey(certificate.get(), key) == 1;
  if (!made) return OpenSslError("a certificate cannot be made");
  return certificate;
}

absl::Status CheckKey(EVP_PKEY* key) {
  char group[64] = "";
  size_t size = 0;
  if (key != nullptr && EVP_PKEY_is_a(key, "EC") == 1 &&
      EVP_PKEY_get_group_name(key, group, sizeof group, &size) == 1 &&
      (absl::string_view(group) == "prime256v1" || absl::string_view(group) == "P-256")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("the request's key is no ECDSA key over P-256");
}

}  // namespace

absl::Duration UsualLife(Role role) {
  if (role == Role::kController) return kControllerLife;
  return role == Role::kWorker ? kWorkerLife : kUserLife;
}

absl::StatusOr<CertificateAuthority> CertificateAuthority::Make(const std::string& name,
                                                                absl::Time now,
                                                                absl::Duration life) {
  PACELINE_ASSIGN_OR_RETURN(const std::string key_pem, NewKey());
  PACELINE_ASSIGN_OR_RETURN(const KeyPtr key, ParseKey(key_pem));
  PACELINE_ASSIGN_OR_RETURN(const X509Ptr own, Begin(key.get(), now - kClockAllowance, now + life));
  X509* certificate = own.get();
  PACELINE_RETURN_IF_ERROR(SetName(X509_get_subject_name(certificate), name));
  PACELINE_RETURN_IF_ERROR(SetName(X509_get_issuer_name(certificate), name));
  for (const auto& [kind, value] : {std::pair(NID_basic_constraints, "critical,CA:TRUE,pathlen:0"),
                                    std::pair(NID_key_usage, "critical,keyCertSign,cRLSign"),
                                    std::pair(NID_subject_key_identifier, "hash")}) {
    PACELINE_RETURN_IF_ERROR(AddExtension(certificate, certificate, kind, value));
  }
  if (X509_sign(certificate, key.get(), EVP_sha256()) <= 0) {
    return OpenSslError("the authority cannot sign");
  }
  return CertificateAuthority(PemOf(certificate), key_pem);
}

absl::StatusOr<CertificateAuthority> CertificateAuthority::FromPem(std::string certificate_pem,
                                                                   std::string key_pem) {
  PACELINE_ASSIGN_OR_RETURN(const X509Ptr certificate, ParseCertificate(certificate_pem));
  PACELINE_ASSIGN_OR_RETURN(const KeyPtr key, ParseKey(key_pem));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError("ca.key is not the key of the certificate in ca.pem");
  }
  return CertificateAuthority(std::move(certificate_pem), std::move(key_pem));
}

absl::StatusOr<CertificateAuthority> CertificateAuthority::Load(const std::string& dir) {
  PACELINE_ASSIGN_OR_RETURN(std::string certificate, ReadWhole(dir + "/ca.pem"));
  PACELINE_ASSIGN_OR_RETURN(std::string key, ReadPrivate(dir + "/ca.key"));
  auto authority = FromPem(std::move(certificate), std::move(key));
  if (authority.ok()) return authority;
  return absl::InvalidArgumentError(absl::StrCat(dir, ": ", authority.status().message()));
}

absl::Status CertificateAuthority::Save(const std::string& dir) const {
  std::error_code error;
  if (std::filesystem::exists(dir + "/ca.key", error)) {
    return absl::FailedPreconditionError(
        absl::StrCat(dir,
                     " has an authority already: its certificates would be worth nothing "
                     "with another one"));
  }
  PACELINE_RETURN_IF_ERROR(WritePrivate(dir + "/ca.key", key_pem_));
  return WritePublic(dir + "/ca.pem", certificate_pem_);
}

absl::StatusOr<std::string> CertificateAuthority::Sign(absl::string_view request_pem,
                                                       const Grant& grant, absl::Time now) const {
  PACELINE_ASSIGN_OR_RETURN(const RequestPtr request, ParseRequest(request_pem));
  EVP_PKEY* key = X509_REQ_get0_pubkey(request.get());
  PACELINE_RETURN_IF_ERROR(CheckKey(key));
  if (X509_REQ_verify(request.get(), key) != 1) {
    return OpenSslError("the request is not signed with its own key");
  }
  PACELINE_ASSIGN_OR_RETURN(const std::string names, NamesText(grant));
  PACELINE_ASSIGN_OR_RETURN(const X509Ptr own, ParseCertificate(certificate_pem_));
  PACELINE_ASSIGN_OR_RETURN(const KeyPtr own_key, ParseKey(key_pem_));
  const absl::Time end = std::min(now + grant.life, FromAsn1(X509_get0_notAfter(own.get())));
  PACELINE_ASSIGN_OR_RETURN(const X509Ptr made, Begin(key, now - kClockAllowance, end));
  X509* certificate = made.get();
  PACELINE_RETURN_IF_ERROR(
      SetName(X509_get_subject_name(certificate), CommonNameOf(grant.principal)));
  if (X509_set_issuer_name(certificate, X509_get_subject_name(own.get())) != 1) {
    return OpenSslError("a certificate cannot be made");
  }
  const char* use =
      grant.principal.role == Role::kController ? "serverAuth,clientAuth" : "clientAuth";
  for (const auto& [kind, value] :
       {std::pair(NID_basic_constraints, std::string("critical,CA:FALSE")),
        std::pair(NID_key_usage, std::string("critical,digitalSignature")),
        std::pair(NID_ext_key_usage, std::string(use)), std::pair(NID_subject_alt_name, names),
        std::pair(NID_subject_key_identifier, std::string("hash")),
        std::pair(NID_authority_key_identifier, std::string("keyid"))}) {
    PACELINE_RETURN_IF_ERROR(AddExtension(own.get(), certificate, kind, value));
  }
  if (X509_sign(certificate, own_key.get(), EVP_sha256()) <= 0) {
    return OpenSslError("the authority cannot sign");
  }
  return PemOf(certificate);
}

}  // namespace paceline
