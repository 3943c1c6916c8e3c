"""Names of secrets, and names that only look like them: a table, both ways."""

import pytest

from carrel.files.secrets import GROUPS, DenyList

DENIED = """
.env .env.local .env.production .env.staging .env.test .env.backup .env-prod .env_production prod.env local.env
docker.env .envrc .env~ .env.bak .env.old .env.orig .env.save .env.swp .env_backup .env-old #.env# .#.env
prod.env.bak prod.env~ .prod.env.swp .env.example.local
server.pem server.PEM server.pem~ server.pem.bak server.pem.old server.pem.orig server.pem.1 .server.pem.swp
AuthKey_ABC123.p8 AuthKey_ABC123.p8.bak tls.key tls.key.backup release.keystore upload.jks cert.pfx cert.p12 store.bks
master.key master.key.old secret.key my.snk site.ppk key.properties local.properties keystore.properties secring.gpg
id_rsa id_rsa.pub id_rsa.bak .id_rsa.swp id_ed25519 id_ecdsa_sk deploy_rsa github_ed25519 server_dsa
passwords.kdbx vault.kdb Passwords.psafe3 login.keychain-db my.agilekeychain
credentials credentials.json credentials.yaml credentials.csv .credentials .credentials.json aws_credentials
credentials.json.bak credentials.xml.enc client_secret_123.apps.googleusercontent.com.json client-secret.json
service-account.json service-account-prod.json service_account.json serviceAccountKey.json my-service-account.json
app-firebase-adminsdk-x1y2z.json application_default_credentials.json service-account.json~ export_credentials.cfg
secrets.yml secrets.yaml secrets.json secrets.toml secret_token.rb prod.secret.exs app.secrets.yaml local_settings.py
.vault_pass .vault_pass.txt .vault-token .secrets passwords.txt api_key.txt secrets.yml.old
.npmrc .npmrc.bak .yarnrc .yarnrc.yml .pypirc .dockercfg .dockerconfigjson
.netrc _netrc .git-credentials .pgpass .my.cnf .mylogin.cnf .htpasswd htpasswd .htpasswd.old .s3cfg .boto rclone.conf
.msmtprc wp-config.php wp-config.php~ wp-config.php.bak LocalSettings.php shadow client.ovpn proftpdpasswd
.ftpconfig sftp-config.json sftp.json filezilla.xml recentservers.xml WebServers.xml robomongo.json logins.json
dbeaver-data-sources.xml http-client.private.env.json
.bash_history .zsh_history .psql_history .mysql_history .python_history .node_repl_history
terraform.tfvars prod.auto.tfvars terraform.tfvars.json terraform.tfstate terraform.tfstate.backup
terraform.tfstate.1690000000.backup .terraformrc kubeconfig kubeconfig.yaml prod.kubeconfig
""".split()

READABLE = """
.env.example .env.sample .env.template .env.dist .env.defaults .env.schema .env.production.example .env-example
.env_sample example.env sample.env template.env .env.example.txt env env.local env.ts environment.ts .environment
dotenv.py envrc .envs
pem.py x.pemx keys key.dart key.ts keyboard.key.md monkey turkey public.crt ca.cer keystore.go p8.rs
id_rs xid_rsa.md.md rsa_test.go ed25519.py crypto_rsa.rs dsa
credentials.py credentials.ts credentials.go credentials.test.ts Credentials.java mycredentials.json
credentials.example.json credentials.json.example aws_credentials.rb client_secret.go client_secret.json.sample
service-account.yaml serviceaccount.yaml service_account.py service-account.md service-account.example.json
secret.go secrets.py secret.yaml secrets.go secretary.json secrets.md secrets.example.yml secrets_test.py settings.py
npmrc netrc key.properties.md gradle.properties auth.json config.json settings.xml hosts.yml
history.md history.txt shadow.css shadow.dart password.dart passwords.py password_reset.html token.py tokens.json
tfstate x.tfvarsx variables.tf main.tf terraform.tfvars.example kube.go kubeconfig-notes.md
database.yml config.php .bashrc .gitconfig .gitignore .gitattributes .editorconfig .prettierrc notes.old notes.bak
readme~ data.1 backup.sh copy.py #notes# package.json.orig Makefile.save
""".split()


def test_the_name_of_a_secret_or_of_a_copy_is_denied() -> None:
    names = [*DENIED, "Copy of id_rsa", ".env copy", "server.pem copy"]

    assert [name for name in names if not DenyList().covers_path((name,), False)] == []
    assert [name for name in names if not DenyList().covers_path(("some", "folder", name), False)] == []


def test_a_name_that_only_looks_like_a_secret_is_readable() -> None:
    assert [name for name in READABLE if DenyList().covers_path(("some", name), False)] == []


@pytest.mark.parametrize(
    "path",
    [
        ".docker/config.json",
        ".m2/settings.xml",
        ".gradle/gradle.properties",
        ".composer/auth.json",
        ".config/gh/hosts.yml",
        ".config/doctl/config.yaml",
        ".DOCKER/Config.json",
        ".kube/config",
        ".aws/credentials",
        ".ssh/config",
        ".git/config",
        ".password-store/mail.gpg",
    ],
)
def test_an_ordinary_name_is_denied_where_it_holds_a_login(path: str) -> None:
    assert DenyList().covers_path(path.split("/"), False)


@pytest.mark.parametrize("path", [".docker/nginx/default.conf", "gh/readme.md", "composer/auth.php", "m2/settings.xml"])
def test_other_names_in_such_a_folder_are_readable(path: str) -> None:
    assert not DenyList().covers_path(path.split("/"), False)


def test_a_folder_may_have_the_name_of_a_secret() -> None:
    assert [name for name in DENIED if DenyList().covers_path((name,), True)] == []


def test_every_pattern_of_the_list_is_in_effect_and_every_group_says_where_it_comes_from() -> None:
    for group in GROUPS:
        assert len(group.origin) > 10
        for pattern in group.names.split():
            assert pattern == pattern.lower()
            for filled in (pattern.replace("*", ""), pattern.replace("*", "x")):
                assert DenyList().covers_path((filled,), False) or filled in ("", "."), pattern
