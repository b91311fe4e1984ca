// paceline pki init, issue, rotate, token, revoke, revoked and show, and paceline whoami.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/text/sanitize.h"
#include "cli/text/table.h"
#include "cli/verbs/cluster/pki_files.h"
#include "cli/verbs/program/value_check.h"
#include "cli/verbs/program/verb_parts.h"
#include "cli/verbs/verbs.h"
#include "cli/view/page.h"
#include "common/tls/certificate.h"
#include "common/tls/certificate_authority.h"
#include "common/tls/key_and_request.h"
#include "common/tls/private_file.h"
#include "common/tls/tls_files.h"
#include "google/protobuf/timestamp.pb.h"
#include "proto/identity.pb.h"

namespace paceline {
namespace {

// Flags of verbs that need no controller.
struct PkiFlags {
  std::string dir;
  std::string ca_dir;
  std::string role;
  std::string name;
  std::vector<std::string> hosts;
  std::string admin;
  int days = 0;
};

absl::Duration LifeOf(const PkiFlags& flags, Role role) {
  return flags.days == 0 ? UsualLife(role) : absl::Hours(24) * flags.days;
}

// Removes the brackets of IPv6 addresses from names and addresses.
std::vector<std::string> HostsOf(const PkiFlags& flags) {
  std::vector<std::string> hosts = flags.hosts;
  for (std::string& host : hosts) {
    if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
      host = host.substr(1, host.size() - 2);
    }
  }
  return hosts;
}

int Init(Program& program, const PkiFlags& flags) {
  const std::string admin = flags.admin.empty() ? program.local_user() : flags.admin;
  if (admin.empty()) {
    return program.Fail(kCliUsage,
                        "$USER is not set: say who shall administrate with --admin NAME");
  }
  const absl::Time now = absl::Now();
  const auto authority = CertificateAuthority::Make("Paceline cluster authority", now);
  if (!authority.ok()) return program.Fail(authority.status());
  absl::Status done = authority->Save(flags.dir + "/ca");
  std::vector<std::string> hosts = HostsOf(flags);
  for (const char* here : {"localhost", "127.0.0.1", "::1"}) {
    if (!absl::c_linear_search(hosts, here)) hosts.push_back(here);
  }
  if (done.ok()) {
    done = IssueInto(*authority, {{Role::kController, flags.name}, hosts, kControllerLife},
                     flags.dir + "/controller", now);
  }
  if (done.ok()) {
    done = IssueInto(*authority, {{Role::kAdmin, admin}, {}, kUserLife}, flags.dir + "/admin", now);
  }
  if (!done.ok()) return program.Fail(done);
  program.out() << "made in " << flags.dir << ":\n"
                << "  ca          the authority: whoever has ca.key can be anybody; keep it apart\n"
                << "  controller  " << flags.name << " at " << absl::StrJoin(hosts, ", ")
                << ": /etc/paceline/tls of the controller\n"
                << "  admin       " << admin << ": ~/.config/paceline/tls of that person\n"
                << std::flush;
  program.Note(
      "next: paceline-controller --tls-dir DIR/controller --ca-dir DIR/ca, and `paceline pki "
      "token NODE` for each node (docs/security.md)");
  return kCliOk;
}

int Issue(Program& program, const PkiFlags& flags) {
  const absl::StatusOr<Role> role = ParseRole(flags.role);
  if (!role.ok()) return program.Fail(role.status());
  if (*role == Role::kController && flags.hosts.empty()) {
    return program.Fail(kCliUsage, "a controller is reached by a name: give it with --host");
  }
  const auto authority = CertificateAuthority::Load(flags.ca_dir);
  if (!authority.ok()) return program.Fail(authority.status());
  const absl::Status done = IssueInto(
      *authority, {{*role, flags.name}, flags.hosts, LifeOf(flags, *role)}, flags.dir, absl::Now());
  if (!done.ok()) return program.Fail(done);
  program.out() << "issued " << PrincipalUri({*role, flags.name}) << " in " << flags.dir
                << std::endl;
  return kCliOk;
}

// Shows the files in a folder, or those that commands use.
int Show(Program& program, const PkiFlags& flags) {
  TlsFiles files = FilesIn(flags.dir);
  if (flags.dir.empty()) {
    const absl::StatusOr<ServerChoice> choice = program.ChooseServer();
    if (!choice.ok()) return program.Fail(choice.status());
    if (!choice->files.has_value()) {
      return program.Fail(kCliRefused, "commands speak plain text here, and prove nothing");
    }
    if (!choice->token_file.empty()) {
      return program.Fail(kCliRefused,
                          "commands show a token here, and no certificate: `paceline whoami` tells "
                          "whom it stands for");
    }
    files = *choice->files;
  }
  const absl::StatusOr<Certificate> certificate = CheckTlsFiles(files, absl::Now());
  if (!certificate.ok()) return program.Fail(certificate.status());
  if (program.json()) {
    program.PrintJsonText(
        nlohmann::ordered_json{{"principal", PrincipalUri(certificate->principal)},
                               {"hosts", certificate->hosts},
                               {"issuer", certificate->issuer},
                               {"valid_from", TimeText(certificate->not_before)},
                               {"valid_to", TimeText(certificate->not_after)},
                               {"fingerprint", certificate->fingerprint}}
            .dump(1));
    return kCliOk;
  }
  std::string page;
  AddLine(&page, "Principal", PrincipalUri(certificate->principal));
  AddLine(&page, "Hosts", absl::StrJoin(certificate->hosts, ", "));
  AddLine(&page, "Issuer", certificate->issuer);
  AddLine(&page, "Valid",
          absl::StrCat("from ", TimeText(certificate->not_before), " to ",
                       TimeText(certificate->not_after)));
  AddLine(&page, "SHA-256", certificate->fingerprint);
  AddLine(&page, "File", files.certificate);
  program.out() << page << std::flush;
  return kCliOk;
}

void AddPkiInit(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<PkiFlags>();
  CLI::App* verb = parent.add_subcommand(
      "init", "Make a cluster's authority, its controller's certificate and an administrator's");
  verb->add_option("DIR", flags->dir, "Folder for them; made if missing")
      ->check(PlainPath())
      ->required();
  verb->add_option("--host", flags->hosts,
                   "Name or address by which the controller is reached; may be repeated")
      ->required()
      ->allow_extra_args(false);
  verb->add_option("--name", flags->name, "Name of the controller")->default_val("controller");
  verb->add_option("--admin", flags->admin, "Name of the administrator. Default: $USER");
  RunWith(*verb, program, flags, Init);
}

void AddPkiIssue(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<PkiFlags>();
  CLI::App* verb = parent.add_subcommand("issue", "Make a key and a certificate for a principal");
  verb->add_option("ROLE", flags->role, "What it may do (docs/security.md)")
      ->required()
      ->check(CLI::IsMember({"viewer", "submitter", "operator", "admin", "worker", "controller"}));
  verb->add_option("NAME", flags->name, "Who it is: 1 to 63 of [A-Za-z0-9._-]")->required();
  verb->add_option("--ca-dir", flags->ca_dir, "Folder of the authority's ca.pem and ca.key")
      ->check(PlainPath())
      ->required();
  verb->add_option("--out", flags->dir, "Folder for ca.pem, cert.pem and key.pem")
      ->check(PlainPath())
      ->required();
  verb->add_option("--host", flags->hosts,
                   "Of a controller: name or address by which it is reached; may be repeated")
      ->allow_extra_args(false);
  verb->add_option("--days", flags->days,
                   "For how long. Default: a controller 365, a worker 1, people 90")
      ->check(WholeNumber(1, 3650));
  RunWith(*verb, program, flags, Issue);
}

void AddPkiShow(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<PkiFlags>();
  CLI::App* verb =
      parent.add_subcommand("show", "Show whom certificates name, and what is wrong with them");
  verb->add_option("DIR", flags->dir, "Folder of them. Default: those that commands use")
      ->check(PlainPath());
  RunWith(*verb, program, flags, Show);
}

// Flags of verbs that ask the controller.
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

int Token(Program& program, const IdentityFlags& flags) {
  v1::CreateJoinTokenRequest request;
  request.set_request_id(RequestId(flags.request_id));
  request.set_node(flags.node);
  request.set_ttl_s(flags.ttl_s);
  request.set_owner(program.user());
  if (request.owner().empty()) return program.FailWithoutUser();
  v1::CreateJoinTokenResponse response;
  const grpc::Status status =
      program.client().Call(methods::kIdentityCreateJoinToken, request, &response);
  if (!status.ok()) return program.Fail(status);
  if (!flags.out.empty()) {
    const absl::Status written = WritePrivate(flags.out, response.token() + "\n");
    if (!written.ok()) return program.Fail(written);
  } else if (program.json()) {
    program.PrintJson(response);
  } else {
    program.out() << response.token() << std::endl;
  }
  program.Note(absl::StrCat("for node ", SanitizeLine(flags.node), ", once, until ",
                            MomentText(response.expire_time()),
                            "; it is a secret: `paceline-worker --join-token-file FILE` takes it"));
  return kCliOk;
}

int Revoke(Program& program, const IdentityFlags& flags) {
  const absl::StatusOr<std::string> principal = PrincipalUriOf(flags.principal);
  if (!principal.ok()) return program.Fail(principal.status());
  v1::RevokeRequest request;
  request.set_request_id(RequestId(flags.request_id));
  request.set_principal(*principal);
  request.set_reason(flags.reason);
  request.set_owner(program.user());
  if (request.owner().empty()) return program.FailWithoutUser();
  v1::Revocation revocation;
  const grpc::Status status = program.client().Call(methods::kIdentityRevoke, request, &revocation);
  return TellAnswer(program, status, revocation, [&](std::ostream& out) {
    out << "refused from now on: certificates of " << SanitizeLine(revocation.principal())
        << " issued before " << MomentText(revocation.before()) << "\n";
  });
}

int Revoked(Program& program) {
  v1::ListRevokedResponse response;
  const grpc::Status status = program.client().Call(methods::kIdentityListRevoked, {}, &response);
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

int TellRenewed(Program& program, const Certificate& made) {
  program.out() << "renewed " << PrincipalUri(made.principal) << " until "
                << TimeText(made.not_after) << std::endl;
  return kCliOk;
}

// Has the controller renew the files that commands use.
int RenewOwn(Program& program, const TlsFiles& files) {
  const absl::StatusOr<std::string> key = ReadPrivate(files.key);
  if (!key.ok()) return program.Fail(key.status());
  const absl::StatusOr<std::string> csr = MakeRequest(*key, "own");
  if (!csr.ok()) return program.Fail(csr.status());
  v1::RenewRequest request;
  request.set_csr_pem(*csr);
  v1::RenewResponse response;
  const grpc::Status status = program.client().Call(methods::kIdentityRenew, request, &response);
  if (!status.ok()) return program.Fail(status);
  const absl::Status written = WritePublic(files.certificate, response.certificate_pem());
  if (!written.ok()) return program.Fail(written);
  const absl::StatusOr<Certificate> made = ReadCertificate(response.certificate_pem());
  if (!made.ok()) return program.Fail(made.status());
  return TellRenewed(program, *made);
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
  return TellRenewed(program, *made);
}

int WhoAmI(Program& program) {
  v1::WhoAmIResponse response;
  const grpc::Status status = program.client().Call(methods::kIdentityWhoAmI, {}, &response);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(response);
    return kCliOk;
  }
  std::string page;
  AddLine(&page, "Principal",
          response.principal().empty() ? "nobody, as nothing proves it"
                                       : SanitizeLine(response.principal()));
  AddLine(&page, "Role", SanitizeLine(response.role()));
  AddLine(&page, "Until", response.has_expire_time() ? MomentText(response.expire_time()) : "");
  const absl::StatusOr<ServerChoice> choice = program.ChooseServer();
  AddLine(&page, "Token file", choice.ok() ? SanitizeLine(choice->token_file) : "");
  AddLine(&page, "Server", program.ServerText());
  if (response.plaintext()) {
    AddLine(&page, "Plain text", "everybody on this machine is an administrator");
  }
  program.out() << page << std::flush;
  return kCliOk;
}

void AddRepeatedId(CLI::App& verb, std::string& id) {
  verb.add_option("--request-id", id,
                  "Id of the request, to be repeated when the answer was lost. Default: a new one");
}

void AddPkiToken(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<IdentityFlags>();
  CLI::App* verb =
      parent.add_subcommand("token", "Make a secret by which a node joins the cluster, once");
  verb->add_option("NODE", flags->node, "Name of the node")->required();
  verb->add_option("--ttl", flags->ttl_s, "Seconds until it ends")
      ->check(Number(1, absl::ToDoubleSeconds(absl::Hours(24 * 7))))
      ->capture_default_str();
  verb->add_option("--out", flags->out, "Write it to this file, which only you can read")
      ->check(PlainPath());
  AddOwner(*verb, program);
  AddRepeatedId(*verb, flags->request_id);
  RunWith(*verb, program, flags, Token);
}

void AddPkiRevoke(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<IdentityFlags>();
  CLI::App* verb =
      parent.add_subcommand("revoke", "Refuse the certificates that a principal has, from now on");
  verb->add_option("PRINCIPAL", flags->principal, "ROLE/NAME, as in worker/node-7")->required();
  verb->add_option("--reason", flags->reason, "Why")->required();
  AddOwner(*verb, program);
  AddRepeatedId(*verb, flags->request_id);
  RunWith(*verb, program, flags, Revoke);
}

void AddPkiRevoked(CLI::App& parent, Program& program) {
  CLI::App* verb = parent.add_subcommand("revoked", "Show whose certificates are refused, and why");
  Run(*verb, program, Revoked);
}

void AddPkiRotate(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<IdentityFlags>();
  CLI::App* verb = parent.add_subcommand(
      "rotate", "Replace a certificate by a newer one, by the controller or with --ca-dir");
  verb->add_option("DIR", flags->dir, "Folder of its files. Default: those that commands use")
      ->check(PlainPath());
  verb->add_option("--ca-dir", flags->ca_dir, "Folder of the authority's ca.pem and ca.key")
      ->check(PlainPath());
  verb->add_flag("--new-key", flags->new_key, "Of a new key");
  verb->add_option("--days", flags->days, "For how long. Default: as for `paceline pki issue`")
      ->check(WholeNumber(1, 3650));
  RunWith(*verb, program, flags, Rotate);
}

}  // namespace

void AddPkiVerbs(CLI::App& parent, Program& program) {
  AddPkiInit(parent, program);
  AddPkiIssue(parent, program);
  AddPkiRotate(parent, program);
  AddPkiToken(parent, program);
  AddPkiRevoke(parent, program);
  AddPkiRevoked(parent, program);
  AddPkiShow(parent, program);
}

void AddWhoAmI(CLI::App& parent, Program& program) {
  CLI::App* verb =
      parent.add_subcommand("whoami", "Show whom the controller takes you for, and your role");
  Run(*verb, program, WhoAmI);
}

}  // namespace paceline
