// paceline pki init|issue|show, and rotate with the authority's key: what needs no controller.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/verbs/pki_files.h"
#include "cli/verbs/value_check.h"
#include "cli/verbs/verbs.h"
#include "cli/view/page.h"
#include "common/tls/certificate.h"
#include "common/tls/certificate_authority.h"
#include "common/tls/tls_files.h"

namespace paceline {
namespace {

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
  std::vector<std::string> hosts = flags.hosts;
  for (const char* here : {"localhost", "127.0.0.1"}) {
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

// Of the files in a folder, or of those that commands use.
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

}  // namespace

void AddPkiInit(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<PkiFlags>();
  CLI::App* verb = parent.add_subcommand(
      "init", "Make a cluster's authority, its controller's certificate and an administrator's");
  verb->add_option("DIR", flags->dir, "Folder for them; made if missing")->required();
  verb->add_option("--host", flags->hosts,
                   "Name or address by which the controller is reached; may be repeated")
      ->required()
      ->allow_extra_args(false);
  verb->add_option("--name", flags->name, "Name of the controller")->default_val("controller");
  verb->add_option("--admin", flags->admin, "Name of the administrator. Default: $USER");
  verb->callback(
      [flags, &program] { program.action = [flags, &program] { return Init(program, *flags); }; });
}

void AddPkiIssue(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<PkiFlags>();
  CLI::App* verb = parent.add_subcommand("issue", "Make a key and a certificate for a principal");
  verb->add_option("ROLE", flags->role, "What it may do (docs/security.md)")
      ->required()
      ->check(CLI::IsMember({"viewer", "submitter", "operator", "admin", "worker", "controller"}));
  verb->add_option("NAME", flags->name, "Who it is: 1 to 63 of [A-Za-z0-9._-]")->required();
  verb->add_option("--ca-dir", flags->ca_dir, "Folder of the authority's ca.pem and ca.key")
      ->required();
  verb->add_option("--out", flags->dir, "Folder for ca.pem, cert.pem and key.pem")->required();
  verb->add_option("--host", flags->hosts,
                   "Of a controller: name or address by which it is reached; may be repeated")
      ->allow_extra_args(false);
  verb->add_option("--days", flags->days,
                   "For how long. Default: a controller 365, a worker 1, people 90")
      ->check(WholeNumber(1, 3650));
  verb->callback(
      [flags, &program] { program.action = [flags, &program] { return Issue(program, *flags); }; });
}

void AddPkiShow(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<PkiFlags>();
  CLI::App* verb =
      parent.add_subcommand("show", "Show whom certificates name, and what is wrong with them");
  verb->add_option("DIR", flags->dir, "Folder of them. Default: those that commands use");
  verb->callback(
      [flags, &program] { program.action = [flags, &program] { return Show(program, *flags); }; });
}

}  // namespace paceline
