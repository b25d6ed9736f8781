"""A certificate authority for tests of TLS, made with openssl. A test that imports it is skipped if
openssl is not installed."""
import os
import shutil
import subprocess

import pytest

if not shutil.which("openssl"):
    pytest.skip("openssl is not installed", allow_module_level=True)


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, timeout=120)


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder):
        self.folder, self.file = folder, folder / "ca.pem"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-subj", "/CN=test authority", "-days", "2", "-keyout", folder / "ca.key",
                "-out", self.file)

    def issue(self, cert, key, serial, new_key=True):
        """A certificate for 127.0.0.1, put into place as renewals are: complete files, renamed."""
        end = self.folder / "ext"
        end.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        if new_key:
            openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-out", f"{key}.new")
            os.rename(f"{key}.new", key)
        openssl("req", "-new", "-key", key, "-subj", "/CN=evenstep", "-out", self.folder / "csr")
        openssl("x509", "-req", "-in", self.folder / "csr", "-CA", self.file, "-CAkey",
                self.folder / "ca.key", "-set_serial", serial, "-days", "2", "-extfile", end,
                "-out", f"{cert}.new")
        os.rename(f"{cert}.new", cert)
