// paceline pki token|revoke|revoked|rotate and paceline whoami: what the controller is asked.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/text/neutral.h"
#include "cli/text/table.h"
#include "cli/verbs/node_action.h"
#include "cli/verbs/pki_files.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "cli/view/page.h"
#include "common/tls/certificate.h"
#include "common/tls/certificate_authority.h"
#include "common/tls/key_and_request.h"
#include "common/tls/private_file.h"
#include "common/tls/tls_files.h"
#include "common/uuid.h"
#include "google/protobuf/timestamp.pb.h"
#include "proto/identity.pb.h"

namespace paceline {
namespace {

struct IdentityFlags {
  std::string node;
  double ttl_s = 3600;
  std::string out;
  std::string principal;
  std::string reason;
  std::string request_id;
  std::string dir;
  std::string ca_dir;
  int days = 0;
  bool new_key = false;
};

std::string MomentText(const google::protobuf::Timestamp& time) {
  return TimeText(absl::FromUnixSeconds(time.seconds()));
}

std::string RequestIdOf(const IdentityFlags& flags) {
  return flags.request_id.empty() ? NewUuid() : flags.request_id;
}

int Token(Program& program, const IdentityFlags& flags) {
  v1::CreateJoinTokenRequest request;
  request.set_request_id(RequestIdOf(flags));
  request.set_node(flags.node);
  request.set_ttl_s(flags.ttl_s);
  request.set_owner(program.user());
  if (request.owner().empty()) return program.FailWithoutUser();
  v1::CreateJoinTokenResponse response;
  const grpc::Status status = program.client().CreateJoinToken(request, &response);
  if (!status.ok()) return program.Fail(status);
  if (!flags.out.empty()) {
    const absl::Status written = WritePrivate(flags.out, response.token() + "\n");
    if (!written.ok()) return program.Fail(written);
  } else if (program.json()) {
    program.PrintJson(response);
  } else {
    program.out() << response.token() << std::endl;
  }
  program.Note(absl::StrCat("for node ", NeutralLine(flags.node), ", once, until ",
                            MomentText(response.expire_time()),
                            "; it is a secret: `paceline-worker --join-token-file FILE` takes it"));
  return kCliOk;
}

int Revoke(Program& program, const IdentityFlags& flags) {
  const absl::StatusOr<std::string> principal = PrincipalUriOf(flags.principal);
  if (!principal.ok()) return program.Fail(principal.status());
  v1::RevokeRequest request;
  request.set_request_id(RequestIdOf(flags));
  request.set_principal(*principal);
  request.set_reason(flags.reason);
  request.set_owner(program.user());
  if (request.owner().empty()) return program.FailWithoutUser();
  v1::Revocation revocation;
  const grpc::Status status = program.client().Revoke(request, &revocation);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(revocation);
  } else {
    program.out() << "refused from now on: certificates of " << NeutralLine(revocation.principal())
                  << " issued before " << MomentText(revocation.before()) << std::endl;
  }
  return kCliOk;
}

int Revoked(Program& program) {
  v1::ListRevokedResponse response;
  const grpc::Status status = program.client().ListRevoked({}, &response);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(response);
    return kCliOk;
  }
  if (response.revocations().empty()) {
    program.Note("nobody is refused");
    return kCliOk;
  }
  Table table({{"PRINCIPAL"}, {"ISSUED BEFORE"}, {"BY"}, {"REASON"}});
  for (const v1::Revocation& revocation : response.revocations()) {
    table.Add({revocation.principal(), MomentText(revocation.before()), revocation.owner(),
               revocation.reason()});
  }
  const PageStyle style = program.style();
  program.out() << table.Rendered(style.width, style.colours, style.headings) << std::flush;
  return kCliOk;
}

// By the controller, for the files that commands use.
int RenewOwn(Program& program, const TlsFiles& files) {
  const absl::StatusOr<std::string> key = ReadPrivate(files.key);
  if (!key.ok()) return program.Fail(key.status());
  const absl::StatusOr<std::string> csr = MakeRequest(*key, "own");
  if (!csr.ok()) return program.Fail(csr.status());
  v1::RenewRequest request;
  request.set_csr_pem(*csr);
  v1::RenewResponse response;
  const grpc::Status status = program.client().Renew(request, &response);
  if (!status.ok()) return program.Fail(status);
  const absl::Status written = WritePublic(files.certificate, response.certificate_pem());
  if (!written.ok()) return program.Fail(written);
  const absl::StatusOr<Certificate> made = ReadCertificate(response.certificate_pem());
  if (!made.ok()) return program.Fail(made.status());
  program.out() << "renewed " << PrincipalUri(made->principal) << " until "
                << TimeText(made->not_after) << std::endl;
  return kCliOk;
}

int Rotate(Program& program, const IdentityFlags& flags) {
  if (flags.ca_dir.empty()) {
    if (flags.new_key || flags.days != 0) {
      return program.Fail(kCliUsage, "--new-key and --days need the authority: give --ca-dir");
    }
    if (!flags.dir.empty()) program.flags.tls_dir = flags.dir;
    const absl::StatusOr<ServerChoice> choice = program.ChooseServer();
    if (!choice.ok()) return program.Fail(choice.status());
    if (!choice->files.has_value() || !choice->token_file.empty()) {
      return program.Fail(kCliUsage, "there is no certificate in use: name its folder, DIR");
    }
    return RenewOwn(program, *choice->files);
  }
  if (flags.dir.empty()) return program.Fail(kCliUsage, "name the certificate's folder, DIR");
  const auto authority = CertificateAuthority::Load(flags.ca_dir);
  if (!authority.ok()) return program.Fail(authority.status());
  const absl::StatusOr<Certificate> made =
      RotateIn(*authority, flags.dir, flags.new_key, absl::Hours(24) * flags.days, absl::Now());
  if (!made.ok()) return program.Fail(made.status());
  program.out() << "renewed " << PrincipalUri(made->principal) << " until "
                << TimeText(made->not_after) << std::endl;
  return kCliOk;
}

int WhoAmI(Program& program) {
  v1::WhoAmIResponse response;
  const grpc::Status status = program.client().WhoAmI({}, &response);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(response);
    return kCliOk;
  }
  std::string page;
  AddLine(&page, "Principal",
          response.principal().empty() ? "nobody, as nothing proves it"
                                       : NeutralLine(response.principal()));
  AddLine(&page, "Role", NeutralLine(response.role()));
  AddLine(&page, "Until", response.has_expire_time() ? MomentText(response.expire_time()) : "");
  const absl::StatusOr<ServerChoice> choice = program.ChooseServer();
  AddLine(&page, "Token file", choice.ok() ? NeutralLine(choice->token_file) : "");
  AddLine(&page, "Server", program.ServerText());
  if (response.plaintext()) {
    AddLine(&page, "Plain text", "everybody on this machine is an administrator");
  }
  program.out() << page << std::flush;
  return kCliOk;
}

using Flags = std::shared_ptr<IdentityFlags>;

void AddRequestId(CLI::App& verb, const Flags& flags) {
  verb.add_option("--request-id", flags->request_id,
                  "Id of the request, to be repeated when the answer was lost. Default: a new one");
}

}  // namespace

void AddPkiToken(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<IdentityFlags>();
  CLI::App* verb =
      parent.add_subcommand("token", "Make a secret by which a node joins the cluster, once");
  verb->add_option("NODE", flags->node, "Name of the node")->required();
  verb->add_option("--ttl", flags->ttl_s, "Seconds until it ends")
      ->check(Number(1, absl::ToDoubleSeconds(absl::Hours(24 * 7))))
      ->capture_default_str();
  verb->add_option("--out", flags->out, "Write it to this file, which only you can read");
  AddOwner(*verb, program);
  AddRequestId(*verb, flags);
  verb->callback(
      [flags, &program] { program.action = [flags, &program] { return Token(program, *flags); }; });
}

void AddPkiRevoke(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<IdentityFlags>();
  CLI::App* verb =
      parent.add_subcommand("revoke", "Refuse the certificates that a principal has, from now on");
  verb->add_option("PRINCIPAL", flags->principal, "ROLE/NAME, as in worker/node-7")->required();
  verb->add_option("--reason", flags->reason, "Why")->required();
  AddOwner(*verb, program);
  AddRequestId(*verb, flags);
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return Revoke(program, *flags); };
  });
}

void AddPkiRevoked(CLI::App& parent, Program& program) {
  CLI::App* verb = parent.add_subcommand("revoked", "Show whose certificates are refused, and why");
  verb->callback([&program] { program.action = [&program] { return Revoked(program); }; });
}

void AddPkiRotate(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<IdentityFlags>();
  CLI::App* verb = parent.add_subcommand(
      "rotate", "Replace a certificate by a newer one, by the controller or with --ca-dir");
  verb->add_option("DIR", flags->dir, "Folder of its files. Default: those that commands use");
  verb->add_option("--ca-dir", flags->ca_dir, "Folder of the authority's ca.pem and ca.key");
  verb->add_flag("--new-key", flags->new_key, "Of a new key");
  verb->add_option("--days", flags->days, "For how long. Default: as for `paceline pki issue`")
      ->check(WholeNumber(1, 3650));
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return Rotate(program, *flags); };
  });
}

void AddWhoAmI(CLI::App& parent, Program& program) {
  CLI::App* verb =
      parent.add_subcommand("whoami", "Show whom the controller takes you for, and your role");
  verb->callback([&program] { program.action = [&program] { return WhoAmI(program); }; });
}

}  // namespace paceline
